"""Codecs by name, and whatever a user gives as one."""

from __future__ import annotations

import re
from typing import Any

from ..common.checks import did_you_mean
from ..common.rows import Rows
from ..errors import CodecError
from .base import FP32, Codec
from .halves import BF16, FP16
from .powersgd import PowerSGD
from .rounding import Int4, Int8
from .sign import Sign
from .topk import TopK

CODECS: dict[str, type[Codec]] = {
    codec.name: codec for codec in (FP32, BF16, FP16, Int8, Int4, Sign, TopK, PowerSGD)
}
"""Every codec, by its family's name."""

_NAME = re.compile(r"(?P<family>[^:+]*)(:(?P<value>[^:]*?))?(?P<feedback>\+ef)?")


def as_codec(value: str | Codec) -> Codec:
    """Return a codec for what a user gives as one.

    Parameters
    ----------
    value : str or Codec
        ``family``, ``family:parameter``, each with ``+ef`` behind for error feedback:
        ``int8``, ``sign+ef``, ``topk:0.01+ef``. Case does not matter.

    Raises
    ------
    CodecError
        No codec has this name, its parameter is out of range or it takes none, or it lacks the
        error feedback that it needs.
    """
    if isinstance(value, Codec):
        return value
    if not isinstance(value, str):
        raise CodecError(
            f"Expected a codec or its name, such as 'int8' or 'topk:0.01+ef'; got {value!r} of "
            f"type {type(value).__name__}."
        )
    match = _NAME.fullmatch(value.strip().lower())
    codec = CODECS.get(match["family"]) if match else None
    if match is None or codec is None:
        hint = did_you_mean(re.split("[:+]", value.strip().lower())[0], CODECS)
        raise CodecError(f"No codec is named {value!r}.{hint} Known: {', '.join(names())}.")
    given = {} if match["value"] is None else _parameter(codec, match["value"])
    return codec(feedback=bool(match["feedback"]), **given)


def _parameter(codec: type[Codec], text: str) -> dict[str, Any]:
    """Return the parameter that a name gives, as a number of its default's type."""
    if not codec.parameter:
        raise CodecError(f"Codec {codec.name} takes no parameter, got {text!r}.")
    try:
        return {codec.parameter: type(getattr(codec, codec.parameter))(text)}
    except ValueError:
        raise CodecError(
            f"Codec {codec.name}: expected a number as {codec.parameter}, got {text!r}."
        ) from None


def names() -> list[str]:
    """Return an example of each codec that can be used as it is."""
    return [str(codec(feedback=codec.biased)) for codec in CODECS.values()]


def describe() -> Rows:
    """Return a row of plain values for each codec; they show as a table.

    Returns
    -------
    list of dict
        With keys ``name``, ``when``, ``example``, ``ratio`` (of the example, on float32),
        ``rule``, ``feedback`` (``"required"``, ``"optional"`` or ``"none"``), ``source``.
    """
    return Rows(
        {
            "name": name,
            "when": codec.when,
            "example": example,
            "ratio": codec.ratio,
            "rule": codec.rule,
            "feedback": _feedback(codec),
            "source": codec.source,
        }
        for (name, codec), example in zip(CODECS.items(), names(), strict=True)
    )


def _feedback(codec: type[Codec]) -> str:
    if codec.lossless:
        return "none"
    return "required" if codec.biased else "optional"
