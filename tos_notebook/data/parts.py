"""What users give for the fields of a record, as arrays in the order of a program's feeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..blocks.naming import Field, flattened, in_order, together
from ..common.arrays import as_strings, is_text
from ..errors import DataError
from .lists import as_array
from .series import is_pandas, is_pandas_frame, names_in, stacked, values_of


def parts_of(data: Any) -> Any:
    """Return data as the tuple or list of its parts; what is neither arrays nor lists as it is.

    A list is one part, unless arrays or dictionaries are in it: rows of Python's own.
    """
    if isinstance(data, Mapping | np.ndarray) or is_pandas(data):
        return (data,)
    if isinstance(data, list) and data and not any(map(_is_part, data)):
        return (data,)
    return data


def _is_part(value: Any) -> bool:
    return isinstance(value, Mapping) or (hasattr(value, "__array__") and np.ndim(value) > 0)


def width(part: Any, ports: Sequence[Field]) -> int:
    """Return how many of the ports that come next a part is for."""
    if is_pandas_frame(part):
        return len(part.columns) if _spreads(part, ports) else 1
    return len(part) if isinstance(part, Mapping) else 1


def _spreads(frame: Any, ports: Sequence[Field]) -> bool:
    """Tell whether each column of a DataFrame is for an input of its own."""
    count = len(frame.columns)
    return 1 < count == len(together(ports, count))


def named_arrays(data: Any, ports: Sequence[Field]) -> Any:
    """Return arrays in the order of the ports, text among them as `bytes`.

    Parameters
    ----------
    data : object
        One array for the only port, a dictionary, or a tuple or list with some, such as
        ``({"left": x1, "right": x2}, y)``. Lists of Python's are arrays, too; so are columns of
        pandas, and a DataFrame of pandas, whose columns go to the inputs of their names, or to one
        input all together. All else is returned as it is.
    ports : sequence of Field

    Raises
    ------
    ShapeMismatch
        The keys are not the ports' names; or lists differ in length.
    DataError
        Something else than numbers and text.
    """
    parts = parts_of(data)
    if not isinstance(parts, tuple | list):
        return data
    named = _without_frames(parts, ports) if any(map(is_pandas_frame, parts)) else parts
    if any(isinstance(part, Mapping) for part in named):
        named = flattened(named, ports, lambda array: [array])
    made = [as_column(part, _what(ports, place)) for place, part in enumerate(named)]
    if len(made) == len(ports):
        made = [fitted(array, port) for array, port in zip(made, ports, strict=True)]
    same = len(made) == len(parts) and all(a is b for a, b in zip(made, parts, strict=True))
    return parts if same else tuple(made)


def _without_frames(parts: Sequence[Any], ports: Sequence[Field]) -> list[Any]:
    """Return the parts, with the columns of pandas' DataFrames in the places of these."""
    found: list[Any] = []
    for part in parts:
        if not is_pandas_frame(part):
            found.append(part)
            continue
        here = ports[sum(width(one, ports) for one in found) :]
        columns = {
            text: values_of(part[name], f"Column {text!r}") for text, name in names_in(part).items()
        }
        if _spreads(part, here):
            order = in_order(list(columns), together(here, len(columns)), "columns")
            found += [columns[name] for name in order]
        else:
            found.append(stacked(columns))
    return found


def _what(ports: Sequence[Field], place: int) -> str:
    return f"Feed {ports[place].name!r}" if place < len(ports) else f"Field {place}"


def as_column(part: Any, what: str) -> Any:
    """Return what is given for one field as an array; what is none, and no list, as it is.

    Parameters
    ----------
    part : object
    what : str
        Begins messages, such as ``"Column 'age'"``.

    Raises
    ------
    DataError, ShapeMismatch
        Values are neither numbers nor text, or missing; or rows differ in shape.
    """
    if isinstance(part, Mapping):
        return {name: as_column(value, f"{what}, {name!r}") for name, value in part.items()}
    if is_pandas(part):
        return values_of(part, what if part.name is None else f"Column {part.name!r}")
    if isinstance(part, list | tuple) and len(part):
        return as_array(part, what)
    try:
        return as_strings(part) if isinstance(part, np.ndarray) and is_text(part) else part
    except TypeError as error:
        if part.dtype.kind == "O" and part.ndim:
            return as_array(part.tolist(), what)
        raise DataError(f"Arrays: {error}, in an array of {part.dtype}.") from None


def fitted(array: Any, port: Field) -> Any:
    """Return flat rows in the shape of an input that takes as many values."""
    shape = getattr(port, "shape", None)
    if not isinstance(array, np.ndarray) or shape is None or None in shape:
        return array
    found = array.shape[1:]
    flat = 0 < array.ndim <= 2 and found != shape and math.prod(found) == math.prod(shape)
    return array.reshape(len(array), *shape) if flat else array
