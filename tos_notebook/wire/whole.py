"""Frames that have come as a whole: those that are answered at once, read in one step."""

from __future__ import annotations

from typing import NamedTuple

from ..common import native
from ..errors import ProtocolError
from .bodies import decode_body
from .frames import HEADER_SIZE, decode_header, encode_header
from .messages import KINDS, Collect, Finish, Push
from .packed import PUSH_SPANS

AtOnce = Push | Finish | Collect
"""Requests whose answer does not wait."""

AT_ONCE = (Push, Finish, Collect)
"""The same for `isinstance`: a union written at its use would be made at every push."""

_AT_ONCE_KINDS = {kind for kind, message in KINDS.items() if message in AT_ONCE}
_PUSH = next(kind for kind, message in KINDS.items() if message is Push)
PUSH_BEGINS = encode_header(_PUSH, 0, 0, 0)[:8]
"""What a push's frame begins with, up to the request's number."""

_new = tuple.__new__


class Whole(NamedTuple):
    """A frame."""

    sequence: int
    message: AtOnce
    payload: memoryview
    """A part of what was read, which the next frame overwrites."""


def read_whole(data: memoryview, got: int) -> Whole | None:
    """Read a frame that is all of the first `got` bytes.

    Parameters
    ----------
    data : memoryview of bytes
    got : int

    Returns
    -------
    Whole or None
        None for a part of a frame, one that breaks the protocol, and any other message than those
        that are answered at once.
    """
    if native.extension is not None:
        found = native.extension.read_push(data, got, PUSH_BEGINS, PUSH_SPANS.high)
        if found is not None:
            sequence, start, values = found
            return Whole(sequence, _new(Push, values), data[start:got])
    return _read_slowly(data, got)


def _read_slowly(data: memoryview, got: int) -> Whole | None:
    if got < HEADER_SIZE:
        return None
    try:
        header = decode_header(data)
        start = HEADER_SIZE + header.body
        if header.kind not in _AT_ONCE_KINDS or start + header.payload != got:
            return None
        message = decode_body(header.kind, bytes(data[HEADER_SIZE:start]))
    except ProtocolError:
        return None
    assert isinstance(message, AT_ONCE)
    return Whole(header.sequence, message, data[start:got])
