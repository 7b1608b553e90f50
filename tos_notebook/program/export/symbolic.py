"""Say in words that a user's function uses Python on tensors, which have no values in a trace."""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import keras

from ...common.tracebacks import is_users
from ...errors import UnsupportedProgram

_NUMPY = "numpy|item|tolist|astype|reshape|copy|size|T|mean|sum|min|max|argmax|any|all"

_NEEDS_VALUES = re.compile(
    r"not ['\"]?SymbolicTensor|(?i:symbolic) (`?tf\.)?Tensor|SymbolicTensor\.__format__"
    r"|'SymbolicTensor' object cannot be interpreted|Tensor is unhashable"
    rf"|SymbolicTensor'? object has no attribute '({_NUMPY})'|numpy\(\) is only available"
)
"""What Python, NumPy and TensorFlow say of a tensor that would need its value."""

_PLACE = re.compile(r'File "([^"]+)", line (\d+)')
"""How TensorFlow names the lines of a function that it has translated."""

_KINDS = {
    "metric": keras.metrics.Metric,
    "loss": keras.losses.Loss,
    "layer": keras.layers.Layer,
}


@contextmanager
def graph_only(what: str) -> Iterator[None]:
    """Trace inside what can use no Python on tensors.

    Parameters
    ----------
    what : str
        What is traced, such as ``"preprocess= of model 'm'"``.

    Raises
    ------
    UnsupportedProgram
        It does.
    """
    try:
        yield
    except UnsupportedProgram as error:
        # It is said inside: what TensorFlow has called in between is left out.
        raise UnsupportedProgram(*error.args) from None
    except (TypeError, AttributeError, NotImplementedError) as error:
        lines = re.sub(r"\x1b\[\d+m", "", str(error)).splitlines()
        said = next(filter(_NEEDS_VALUES.search, lines), None)
        if said is None:
            raise
        # The line is named, and the text is kept: TensorFlow's own frames would only hide both.
        raise UnsupportedProgram(
            f"Expected TensorFlow operations in {what}{_owner(error.__traceback__)}, got Python or "
            f"NumPy on a tensor{_place(error)}. TensorFlow says: {_sentence(said)}. Write tf.cond "
            "or tf.where for if, tf.cast for float, tf.math.log or keras.ops for NumPy, and "
            "tf.print to print."
        ) from None


def _sentence(said: str) -> str:
    """Return the first sentence, without the name of the exception."""
    return re.split(r"\.\s", re.sub(r"^\s*\w+Error: ", "", said))[0].strip().rstrip(".")


def _owner(trace: TracebackType | None) -> str:
    """Return the innermost metric, loss or layer that was called, in brackets."""
    owners = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(trace)]
    for owner in reversed(owners):
        kind = _kind(owner)
        if kind:
            return f" ({kind} {owner.name!r})"
    return ""


def _kind(owner: Any) -> str:
    # What compile makes holds those of the user.
    if isinstance(owner, keras.Model) or type(owner).__name__.startswith("Compile"):
        return ""
    return next((name for name, kind in _KINDS.items() if isinstance(owner, kind)), "")


def _place(error: Exception) -> str:
    """Return the user's innermost line; nothing if there is none."""
    # A function that TensorFlow has translated has its lines in the text alone.
    places = [(file, int(line)) for file, line in _PLACE.findall(str(error))]
    if not places:
        frames = traceback.extract_tb(error.__traceback__)
        places = [(frame.filename, frame.lineno or 0) for frame in frames]
    own = [(file, line) for file, line in places if is_users(file)]
    if not own:
        return ""
    file, line = own[-1]
    where = "a cell" if "ipykernel_" in file or file.startswith("<ipython-input") else file
    code = linecache.getline(file, line).strip()
    return f" in line {line} of {where}" + (f", `{code:.80}`" if code else "")
