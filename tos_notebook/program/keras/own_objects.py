"""What of a model is the user's own, so that Keras does not find it by its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import signature
from pathlib import Path
from types import FunctionType
from typing import Any

import keras

from ...errors import CaptureError


def own_objects(model: Any) -> dict[str, Any]:
    """Return what Keras needs to make a model again that is at hand, registered or not.

    Parameters
    ----------
    model : keras.Model
        Compiled.

    Returns
    -------
    dict of str to (callable or Again)
        As ``custom_objects``: what stands for the classes of layers, losses, metrics and
        optimizers, and of what they hold; and functions.

    Raises
    ------
    CaptureError
        A lambda, which cannot be made again.
    """
    found: dict[str, Any] = {}
    for value in _held(model):
        if isinstance(value, FunctionType) and value.__name__ == "<lambda>":
            raise CaptureError(
                f"Model {model.name!r} holds a lambda, which Keras cannot copy. Make it a function "
                "with def, or give a function that returns the model."
            )
        if isinstance(value, FunctionType):
            found[value.__name__] = value
        elif hasattr(value, "get_config") and not _is_keras(type(value)):
            found[type(value).__name__] = Again(value)
    return found


def own_kinds(model: Any) -> dict[str, Any]:
    """Return the classes and functions that `own_objects` stands for, by name.

    Raises
    ------
    CaptureError
        A lambda, which cannot be made again.
    """
    found = own_objects(model)
    return {name: v.kind if isinstance(v, Again) else v for name, v in found.items()}


def loaded(path: Path, own: Mapping[str, Any]) -> Any:
    """Return the model of a ``.keras`` file that another process of the same user has written.

    Parameters
    ----------
    path : Path
    own : mapping of str
        What `own_kinds` returned of it.
    """
    return keras.saving.load_model(path, custom_objects=dict(own), safe_mode=False)


def _held(model: Any) -> Iterator[Any]:
    config = getattr(getattr(model, "_compile_config", None), "config", {})
    given = [part for value in config.values() for part in keras.tree.flatten(value)]
    for owner in (*model._flatten_layers(), *given):
        yield owner
        yield from getattr(owner, "__dict__", {}).values()


def _is_keras(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "keras"


class Again:
    """Stands for the class of something of the user's own, to make it again.

    Parameters
    ----------
    original : object
        One of the class.
    """

    def __init__(self, original: Any) -> None:
        self._original = original

    @property
    def kind(self) -> type:
        """The class."""
        return type(self._original)

    def from_config(self, config: Mapping[str, Any]) -> Any:
        """Return another one.

        A class whose ``__init__`` does not take all that Keras saves, such as the name, is made of
        what it takes. A loss has no state: where its configuration says too little, it is shared.
        """
        kind = type(self._original)
        try:
            return kind.from_config(dict(config))
        except TypeError:
            takes = signature(kind).parameters
        try:
            made = kind(**{name: value for name, value in config.items() if name in takes})
        except TypeError:
            if isinstance(self._original, keras.losses.Loss):
                return self._original
            raise
        made.name = config.get("name", made.name)
        return made
