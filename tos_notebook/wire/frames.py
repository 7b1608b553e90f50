"""Frames: a fixed header, a small body that says what is meant, and raw bytes as payload.

::

    magic "TOSN" | version u8 | kind u8 | flags u16 = 0 | sequence u32 | body u32 | payload u64

All numbers are big-endian. Magic and version keep their place in every version to come,
so that two versions can always tell each other apart. ``sequence`` numbers the requests of
one connection; an answer repeats its request's number.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from ..errors import LocalProtocolError, ProtocolError, RemoteProtocolError, VersionMismatch
from .bodies import encode_body
from .messages import KINDS, Message, Push, Reply
from .packed import REPLY, push_numbers, push_struct, reply_numbers

MAGIC = b"TOSN"
VERSION = 1
MAX_BODY = 1 << 20
"""Bytes. A body is control data; whatever is large travels as payload."""

HEADER = struct.Struct(">4sBBHIIQ")
HEADER_SIZE = HEADER.size

_PLAIN_REPLY = struct.Struct(HEADER.format + REPLY.format.removeprefix(">"))
_PUSH = next(kind for kind, message in KINDS.items() if message is Push)
_REPLY = next(kind for kind, message in KINDS.items() if message is Reply)
REPLY_BEGINS = HEADER.pack(MAGIC, VERSION, _REPLY, 0, 0, 0, 0)[:8]
"""What a reply's frame begins with, up to the request's number."""


@lru_cache(maxsize=64)
def _plain_push(metrics: int) -> struct.Struct:
    return struct.Struct(HEADER.format + push_struct(metrics).format.removeprefix(">"))


class Header(NamedTuple):
    """A decoded header: `body` and `payload` are lengths in bytes."""

    kind: int
    sequence: int
    body: int
    payload: int


def encode_header(kind: int, sequence: int, body: int, payload: int) -> bytes:
    """Return the `HEADER_SIZE` bytes of a header.

    Raises
    ------
    LocalProtocolError
        The kind is unknown, or a length or the sequence is out of range.
    """
    if kind not in KINDS or not 0 <= body <= MAX_BODY:
        raise LocalProtocolError(
            f"Expected a kind of {sorted(KINDS)} and a body of at most {MAX_BODY} bytes; got kind "
            f"{kind} and a body of {body} bytes. Shorten the text, or send it as payload."
        )
    try:
        return HEADER.pack(MAGIC, VERSION, kind, 0, sequence, body, payload)
    except struct.error as error:
        raise LocalProtocolError(
            f"Sequence {sequence} or payload length {payload} does not fit into a frame: {error}."
        ) from error


def decode_header(data: bytes | bytearray | memoryview) -> Header:
    """Read a header from the first `HEADER_SIZE` bytes of `data`.

    Nothing is allocated here, and every limit is checked, so that a caller may trust the
    body's length. The caller checks the payload's length: it knows how much to expect.

    Raises
    ------
    RemoteProtocolError
        Too few bytes, a wrong magic, an unknown kind, flags, or a body over `MAX_BODY`.
    VersionMismatch
        The peer speaks another version.
    """
    if len(data) < HEADER_SIZE:
        raise RemoteProtocolError(f"Expected a header of {HEADER_SIZE} bytes, got {len(data)}.")
    magic, version, kind, flags, sequence, body, payload = HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION or kind not in KINDS or flags or body > MAX_BODY:
        raise _complaint(magic, version, kind, flags, body)
    return Header(kind, sequence, body, payload)


def _complaint(magic: bytes, version: int, kind: int, flags: int, body: int) -> ProtocolError:
    if magic != MAGIC:
        return RemoteProtocolError(
            f"Expected a frame that starts with {MAGIC!r}, got {magic!r}. "
            "Check that host and port are those of this package's server."
        )
    if version != VERSION:
        return version_mismatch(version)
    if kind not in KINDS:
        return RemoteProtocolError(f"Expected a kind of {sorted(KINDS)}, got {kind}.")
    if flags:
        return RemoteProtocolError(f"Expected flags 0, got {flags:#06x}.")
    return RemoteProtocolError(f"Expected a body of at most {MAX_BODY} bytes, got {body}.")


def version_mismatch(theirs: int) -> VersionMismatch:
    """Return the error for a peer of version `theirs`."""
    return VersionMismatch(
        f"Expected protocol version {VERSION}, the peer speaks version {theirs}. "
        "Install the same release of the package on the driver and on the executors."
    )


def encode_head(message: Message, sequence: int, payload: int) -> bytes:
    """Return header and body of one frame, ready to be sent before its payload.

    Parameters
    ----------
    message : Message
        What to say.
    sequence : int
        The request's number, below 2**32.
    payload : int
        Length in bytes of the payload that follows.

    Raises
    ------
    LocalProtocolError
        The message cannot be encoded, or is too long.
    """
    # Nearly all frames: header and body in one step. What does not fit is complained of below.
    with suppress(struct.error, KeyError, TypeError):
        if type(message) is Push:
            packed = _plain_push(len(message.metrics))
            begin = MAGIC, VERSION, _PUSH, 0, sequence, packed.size - HEADER_SIZE, payload
            return packed.pack(*begin, *push_numbers(message))
        if type(message) is Reply and message.settings is None:
            begin = MAGIC, VERSION, _REPLY, 0, sequence, REPLY.size, payload
            return _PLAIN_REPLY.pack(*begin, *reply_numbers(message), 0)
    kind, body = encode_body(message)
    return encode_header(kind, sequence, len(body), payload) + body
