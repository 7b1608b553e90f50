"""Archives that stay with a Keras model: captured again, it need not be traced again.

Keras' own ``fit`` traces a model once for each ``compile``, whatever its functions read by then.
Here an archive serves again only where the model and what it was compiled with are made of Keras'
own parts, whose configurations tell all of them, and where each value that the archive holds is
what it was.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from inspect import isfunction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ...common import temporary
from ..export.frozen import digest

BOUND = 4
"""Archives of a model: of one that trains by its steps and by gradients, on two kinds of data."""

_OTHERS = re.compile(r'"module": (?!"keras)|"class_name": "(function|Lambda|__lambda__)"')
"""What is in a configuration that names functions and classes which are not Keras' own."""


class _Kept(NamedTuple):
    made_of: tuple[Any, ...]
    optimizers: Sequence[Any]
    held: Sequence[Any]
    """Variables whose values the archive holds, but for those that are synchronised."""
    digest: str
    folder: TemporaryDirectory[str]

    @property
    def archive(self) -> Path:
        return Path(self.folder.name, "program.zip")


_kept: WeakKeyDictionary[Any, list[_Kept]] = WeakKeyDictionary()


def configuration(model: Any) -> str | None:
    """Return all that a model is made of and compiled with; None if that holds more than it says.

    Parameters
    ----------
    model : keras.Model
    """
    parts = [*model._flatten_layers(), *([] if model.optimizer is None else [model.optimizer])]
    if any(map(_holds_a_function, parts)):
        return None
    try:
        text = model.to_json() + json.dumps(model.get_compile_config())
    except Exception:
        # As many errors as there are parts which have none.
        return None
    return None if _OTHERS.search(text) else text


def _holds_a_function(part: Any) -> bool:
    """Return whether a layer or an optimizer was given a function; it may tell its name alone."""
    found = filter(isfunction, vars(part).values())
    return any(not function.__module__.startswith("keras") for function in found)


def find(model: Any, made_of: tuple[Any, ...], optimizers: Sequence[Any], target: Path) -> bool:
    """Put the archive of a model where it is wanted; return whether there was one.

    Parameters
    ----------
    model : keras.Model
    made_of : tuple
        What it was made of, its `configuration` among them.
    optimizers : sequence of keras.optimizers.Optimizer
        The model's, which hold what they were when it was kept.
    target : Path
    """
    for kept in list(_kept.get(model, ())):
        same = [*map(id, kept.optimizers)] == [*map(id, optimizers)]
        if same and kept.made_of == made_of and kept.digest == digest(kept.held):
            os.link(kept.archive, target)
            return True
    return False


def keep(
    model: Any,
    made_of: tuple[Any, ...],
    optimizers: Sequence[Any],
    held: Sequence[Any],
    archive: Path,
) -> None:
    """Keep the archive of a model as long as there is the model; see `find`.

    Parameters
    ----------
    model, made_of, optimizers
        As `find` will be given.
    held : sequence of tf.Variable
        Those whose values it holds.
    archive : Path
    """
    kept = _Kept(made_of, list(optimizers), held, digest(held), temporary.directory("tos-kept-"))
    os.link(archive, kept.archive)
    _kept[model] = [*_kept.get(model, ()), kept][-BOUND:]
