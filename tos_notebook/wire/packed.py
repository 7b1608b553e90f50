"""Packed bodies of the two messages that come at every milestone.

JSON would cost several times as much as all else that a small exchange consists of.

::

    Push   6 x i64, finite ?, 4 x f64, digest 16 bytes, count u16 | count x f64, the metrics
    Reply  version i64, settings_version i64, status u8, directive u8, length u32 | settings, JSON

All numbers are big-endian, fields in the messages' order but for the digest.
"""

from __future__ import annotations

import json
from functools import lru_cache
from struct import Struct
from typing import Any, get_args, get_type_hints

from ..content import DIGEST_SIZE
from ..errors import RemoteProtocolError
from .limits import MOST_METRICS, Span
from .messages import Directive, Push, Reply, Settings, Status

STATUSES: tuple[Status, ...] = get_args(Status)
DIRECTIVES = tuple(Directive)


def _spans(kind: type) -> tuple[tuple[int, float, float], ...]:
    """Return the limits of a message's numbers, each with the number of its field."""
    hints = list(get_type_hints(kind, include_extras=True).values())
    named = ((index, getattr(hint, "__metadata__", [None])[0]) for index, hint in enumerate(hints))
    return tuple((index, s.low, s.high) for index, s in named if isinstance(s, Span))


_PUSH_SPANS, _REPLY_SPANS = _spans(Push), _spans(Reply)
_PUSH = Struct(f">6q?4d{DIGEST_SIZE}sH")
_REPLY = Struct(">qqBBI")
_SCALARS = Push._fields.index("metrics")
_STATUS = {status: number for number, status in enumerate(STATUSES)}
_DIRECTIVE = {directive: number for number, directive in enumerate(DIRECTIVES)}


def encode_push(push: Push) -> bytes:
    """Pack a push; raise struct.error if a number is none or does not fit."""
    count = len(push.metrics)
    return _with_metrics(count).pack(*push[:_SCALARS], push.digest, count, *push.metrics)


def decode_push(body: bytes) -> Push:
    """Unpack a push.

    Raises
    ------
    RemoteProtocolError
        Too few bytes, or too many, or a number beyond its limits.
    """
    count, rest = divmod(len(body) - _PUSH.size, 8)
    if count < 0 or rest:
        raise _length("Push", len(body))
    values = _with_metrics(count).unpack(body)
    digest, told = values[_SCALARS : _SCALARS + 2]
    if told != count or count > MOST_METRICS:
        raise _length("Push", len(body))
    for index, low, high in _PUSH_SPANS:
        if not low <= values[index] <= high:
            raise _beyond(Push, index, low, high, values[index])
    return Push._make((*values[:_SCALARS], values[_SCALARS + 2 :], digest))


def encode_reply(reply: Reply) -> bytes:
    """Pack a reply; raise struct.error, KeyError or TypeError for a field that does not fit."""
    version, settings_version, status, directive, settings = reply
    text = b"" if settings is None else json.dumps(settings, separators=(",", ":")).encode("ascii")
    numbers = _STATUS[status], _DIRECTIVE[directive]
    return _REPLY.pack(version, settings_version, *numbers, len(text)) + text


def decode_reply(body: bytes) -> Reply:
    """Unpack a reply.

    Raises
    ------
    RemoteProtocolError
        Too few bytes, or too many, or a field that does not fit.
    """
    if len(body) < _REPLY.size:
        raise _length("Reply", len(body))
    version, settings_version, status, directive, length = _REPLY.unpack_from(body)
    if len(body) != _REPLY.size + length:
        raise _length("Reply", len(body))
    if status >= len(STATUSES) or directive >= len(DIRECTIVES):
        raise RemoteProtocolError(
            f"Reply: expected a status below {len(STATUSES)} and a directive below "
            f"{len(DIRECTIVES)}, got {status} and {directive}."
        )
    for index, low, high in _REPLY_SPANS:
        if not low <= (version, settings_version)[index] <= high:
            raise _beyond(Reply, index, low, high, (version, settings_version)[index])
    settings = _settings(body[_REPLY.size :]) if length else None
    return Reply(version, settings_version, STATUSES[status], DIRECTIVES[directive], settings)


@lru_cache(maxsize=64)
def _with_metrics(count: int) -> Struct:
    return Struct(f"{_PUSH.format}{count}d")


def _settings(text: bytes) -> Settings:
    try:
        settings: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"Reply.settings: expected JSON: {error}.") from error
    if type(settings) is not dict:
        raise RemoteProtocolError(
            f"Reply.settings: expected an object, got {type(settings).__name__}."
        )
    return settings


def _beyond(
    kind: type[Push] | type[Reply], index: int, low: float, high: float, got: float
) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"{kind.__name__}.{kind._fields[index]}: expected a number from {low} to {high}, got {got}."
    )


def _length(name: str, got: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"{name}: expected a body of the length it states, got {got} bytes.")
