"""Packed bodies of the two messages that come at every milestone.

JSON would cost several times as much as all else that a small exchange consists of.

::

    Push   6 x i64, finite ?, 5 x f64, memory i64, digest 16 bytes, count u16 |
           count x f64, the metrics
    Reply  version i64, settings_version i64, status u8, directive u8, length u32 | settings, JSON

All numbers are big-endian, fields in the messages' order but for the digest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from struct import Struct
from typing import Any, get_args, get_type_hints

from ..common.content import DIGEST_SIZE
from ..errors import RemoteProtocolError
from .limits import MOST_METRICS, Span
from .messages import Directive, Push, Reply, Status
from .settings import WorkerSettings

STATUSES: tuple[Status, ...] = get_args(Status)
DIRECTIVES = tuple(Directive)


class _Spans:
    """The limits of a message's numbers, none of which may be negative."""

    def __init__(self, kind: type[Push] | type[Reply]) -> None:
        hints = get_type_hints(kind, include_extras=True)
        limits = {name: getattr(hint, "__metadata__", [None])[0] for name, hint in hints.items()}
        spans = {name: limit for name, limit in limits.items() if isinstance(limit, Span)}
        self._kind, self._spans = kind.__name__, spans
        self._pick = itemgetter(*map(kind._fields.index, spans))
        self._low = max(span.low for span in spans.values())
        self.high = min(span.high for span in spans.values())

    def check(self, values: Sequence[Any]) -> None:
        """Raise RemoteProtocolError if one of a message's fields, in order, is beyond its limit."""
        found = self._pick(values)
        # Nearly always all of them together are below the lowest limit; a sum with NaN is not.
        if min(found) >= self._low and sum(found) <= self.high:
            return
        for (name, span), value in zip(self._spans.items(), found, strict=True):
            if not span.holds(value):
                raise RemoteProtocolError(f"{self._kind}.{name}: expected {span}, got {value}.")


PUSH_SPANS, _REPLY_SPANS = _Spans(Push), _Spans(Reply)
_PUSH = Struct(f">6q?5dq{DIGEST_SIZE}sH")
REPLY = Struct(">qqBBI")
_SCALARS = Push._fields.index("metrics")
_STATUS = {status: number for number, status in enumerate(STATUSES)}
_DIRECTIVE = {directive: number for number, directive in enumerate(DIRECTIVES)}


def encode_push(push: Push) -> bytes:
    """Pack a push; raise struct.error if a number is none or does not fit."""
    return push_struct(len(push.metrics)).pack(*push_numbers(push))


def push_numbers(push: Push) -> tuple[Any, ...]:
    """Return what a push packs."""
    return *push[:_SCALARS], push.digest, len(push.metrics), *push.metrics


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
    values = push_struct(count).unpack(body)
    digest, told = values[_SCALARS : _SCALARS + 2]
    if told != count or count > MOST_METRICS:
        raise _length("Push", len(body))
    PUSH_SPANS.check(values)
    return Push._make((*values[:_SCALARS], values[_SCALARS + 2 :], digest))


def encode_reply(reply: Reply) -> bytes:
    """Pack a reply; raise struct.error, KeyError or TypeError for a field that does not fit."""
    text = b"" if reply.settings is None else _settings_text(reply.settings)
    return REPLY.pack(*reply_numbers(reply), len(text)) + text


def reply_numbers(reply: Reply) -> tuple[int, int, int, int]:
    """Return what a reply packs before its settings; raise KeyError for what is no status."""
    version, settings_version, status, directive, _ = reply
    return version, settings_version, _STATUS[status], _DIRECTIVE[directive]


def decode_reply(body: bytes) -> Reply:
    """Unpack a reply.

    Raises
    ------
    RemoteProtocolError
        Too few bytes, or too many, or a field that does not fit.
    """
    if len(body) < REPLY.size:
        raise _length("Reply", len(body))
    version, settings_version, status, directive, length = REPLY.unpack_from(body)
    if len(body) != REPLY.size + length:
        raise _length("Reply", len(body))
    reply = plain_reply(version, settings_version, status, directive)
    return reply._replace(settings=_settings(body[REPLY.size :])) if length else reply


def plain_reply(version: int, settings_version: int, status: int, directive: int) -> Reply:
    """Return a reply without settings, of the numbers that it packs.

    Raises
    ------
    RemoteProtocolError
        A number does not fit.
    """
    if status >= len(STATUSES) or directive >= len(DIRECTIVES):
        raise RemoteProtocolError(
            f"Reply: expected a status below {len(STATUSES)} and a directive below "
            f"{len(DIRECTIVES)}, got {status} and {directive}."
        )
    _REPLY_SPANS.check((version, settings_version))
    return Reply(version, settings_version, STATUSES[status], DIRECTIVES[directive], None)


@lru_cache(maxsize=64)
def push_struct(count: int) -> Struct:
    """Return how a push is packed that has so many metrics."""
    return Struct(f"{_PUSH.format}{count}d")


def _settings_text(settings: WorkerSettings) -> bytes:
    return json.dumps(settings.to_json(), separators=(",", ":")).encode("ascii")


def _settings(text: bytes) -> WorkerSettings:
    try:
        settings: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"Reply.settings: expected JSON: {error}.") from error
    if type(settings) is not dict:
        raise RemoteProtocolError(
            f"Reply.settings: expected an object, got {type(settings).__name__}."
        )
    return WorkerSettings.from_json(settings)


def _length(name: str, got: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"{name}: expected a body of the length it states, got {got} bytes.")
