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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from inspect import isroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import keras

from ...common import temporary
from ..export.frozen import digest

BOUND = 4
"""Archives of a model: of one that trains by its steps and by gradients, on two kinds of data."""

_OTHERS = re.compile(r'"module": (?!"keras[".])|"class_name": "(function|Lambda|__lambda__)"')
"""What is in a configuration that names functions and classes which are not Keras' own."""


_OWN = ("keras", "tensorflow", "builtins")
"""Packages whose functions are the same each time."""


class _Kept(NamedTuple):
    made_of: tuple[Any, ...]
    made_by: Sequence[Any]
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
    given = keras.tree.flatten(_compiled(model).config) if _compiled(model) else []
    parts = [*model._flatten_layers(), *model.weights, *filter(None, given)]
    if any(map(_is_foreign, filter(callable, given))) or any(map(_holds_a_function, parts)):
        return None
    beside = [
        (keras.config.floatx(), keras.config.epsilon(), keras.config.image_data_format()),
        keras.config.dtype_policy().name,
        [_plain(part) for part in parts if hasattr(part, "__dict__")],
    ]
    try:
        rules = [(weight.regularizer, weight.constraint) for weight in model.weights]
        beside.append(keras.saving.serialize_keras_object(rules))
        text = model.to_json() + json.dumps([model.get_compile_config(), beside])
    except Exception:
        # As many errors as there are parts which have none.
        return None
    return None if _OTHERS.search(text) else text


def makers(model: Any, optimizers: Sequence[Any]) -> list[Any]:
    """Return what is another for a model that is compiled again."""
    return [*optimizers, _compiled(model)]


def _compiled(model: Any) -> Any:
    return getattr(model, "_compile_config", None)


def _is_foreign(function: Any) -> bool:
    """Return whether a function, or what is called as one, is none of Keras' own."""
    # Those of Python itself have no module, or none that is a text.
    module = getattr(function, "__module__", None)
    return isinstance(module, str) and module.split(".")[0] not in _OWN


def _holds_a_function(part: Any) -> bool:
    """Return whether a part was given a function, or its class; it may tell its name alone."""
    places = [getattr(part, "__dict__", {}), *map(vars, type(part).__mro__)]
    found: Iterable[Any] = (value for place in places for value in place.values())
    return any(map(_is_foreign, filter(isroutine, found)))


def _plain(part: Any) -> dict[str, Any]:
    """Return a part's numbers and texts, of which its configuration may say less."""
    found: Iterator[tuple[str, Any]] = (
        (name, [*value] if isinstance(value, list | tuple) else value)
        for name, value in vars(part).items()
        if not name.startswith("_")
    )
    kinds = bool | int | float | str | None
    return {
        name: value
        for name, value in found
        if all(isinstance(one, kinds) for one in (value if isinstance(value, list) else [value]))
    }


def find(model: Any, made_of: tuple[Any, ...], made_by: Sequence[Any], target: Path) -> bool:
    """Put the archive of a model where it is wanted; return whether there was one.

    Parameters
    ----------
    model : keras.Model
    made_of : tuple
        What it was made of, its `configuration` among them.
    made_by : sequence of object
        Its `makers`, the very same.
    target : Path
    """
    for kept in list(_kept.get(model, ())):
        same = _are(kept.made_by, made_by) and kept.made_of == made_of
        if same and kept.digest == digest(kept.held):
            # Its folder may be on another device, or gone: then it is traced again.
            with suppress(OSError):
                os.link(kept.archive, target)
                return True
    return False


def keep(
    model: Any,
    made_of: tuple[Any, ...],
    made_by: Sequence[Any],
    held: Sequence[Any],
    archive: Path,
) -> None:
    """Keep the archive of a model as long as there is the model, or until it is compiled again.

    Parameters
    ----------
    model, made_of, made_by
        As `find` will be given.
    held : sequence of tf.Variable
        Those whose values it holds.
    archive : Path
    """
    kept = _Kept(made_of, list(made_by), held, digest(held), temporary.directory("tos-kept-"))
    # Of the same, there is a newer one now; those of another compilation serve no more.
    others = [
        other
        for other in _kept.get(model, ())
        if _are(other.made_by, made_by) and other.made_of != made_of
    ]
    _kept[model] = others[-BOUND + 1 :]
    # There are file systems without links.
    with suppress(OSError):
        os.link(archive, kept.archive)
        _kept[model] = [*_kept[model], kept]


def _are(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return [*map(id, some)] == [*map(id, others)]
