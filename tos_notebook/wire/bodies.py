"""Bodies of messages.

Most are the positional list of a message's fields in JSON: short, quick to read, and with
nothing in it that could be executed. Non-finite floats travel as ``NaN`` and ``Infinity``. The
two messages that come at every milestone are packed (see `wire.packed`).
"""

from __future__ import annotations

import json
import reprlib
import struct
from collections.abc import Callable, Iterable
from dataclasses import fields
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from ..errors import LocalProtocolError, RemoteProtocolError
from .limits import Chars, Items, Limit
from .messages import KINDS, Directive, Message, Push, Reply
from .packed import decode_push, decode_reply, encode_push, encode_reply
from .settings import WorkerSettings


def encode_body(message: Message) -> tuple[int, bytes]:
    """Return a message's kind and body.

    Raises
    ------
    LocalProtocolError
        Not a message, or a field that cannot be sent (text for a number, for example).
    """
    codec = _BY_CLASS.get(type(message))
    if codec is None:
        names = ", ".join(cls.__name__ for cls in KINDS.values())
        raise LocalProtocolError(f"Expected a message ({names}), got {type(message).__name__}.")
    try:
        return codec.kind, codec.encode(message)
    except (TypeError, ValueError, KeyError, RecursionError, struct.error) as error:
        raise LocalProtocolError(
            f"{type(message).__name__} cannot be sent: {error}. "
            "Expected plain Python numbers, strings, lists and dictionaries."
        ) from error


def decode_body(kind: int, body: bytes) -> Message:
    """Rebuild a message from what `encode_body` made of it.

    Raises
    ------
    RemoteProtocolError
        An unknown kind, bytes of another body, or a field missing, in excess or of a
        wrong type; message and field are named.
    """
    codec = _CODECS.get(kind)
    if codec is None:
        raise RemoteProtocolError(f"Expected a kind of {sorted(KINDS)}, got {kind}.")
    return codec.decode(body)


class _Codec(NamedTuple):
    kind: int
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Message]


class _Rule(NamedTuple):
    """The JSON values of a field, by type, the usual one first; `convert` may refuse more."""

    expected: str
    types: tuple[type, ...]
    convert: Callable[[Any], Any] | None = None


def _each(types: tuple[type, ...], values: Iterable[Any]) -> None:
    for value in values:
        if type(value) not in types:
            raise TypeError(value)


def _whole(value: list[Any]) -> list[int]:
    _each((int,), value)
    return value


def _lines(value: list[Any]) -> list[str]:
    _each((str,), value)
    return value


def _settings_or_none(value: Any) -> WorkerSettings | None:
    return None if value is None else WorkerSettings.from_json(value)


# Types are compared exactly: to JSON a bool is not an integer.
_RULES: dict[Any, _Rule] = {
    int: _Rule("an integer", (int,)),
    int | None: _Rule("an integer or null", (type(None), int)),
    str: _Rule("a string", (str,)),
    bool: _Rule("true or false", (bool,)),
    WorkerSettings: _Rule("an object", (dict,), WorkerSettings.from_json),
    WorkerSettings | None: _Rule("an object or null", (type(None), dict), _settings_or_none),
    list[int]: _Rule("a list of integers", (list,), _whole),
    list[str]: _Rule("a list of strings", (list,), _lines),
    Directive: _Rule(
        f"one of {[str(d) for d in Directive]}", (str,), {str(d): d for d in Directive}.__getitem__
    ),
}


def _rule(hint: Any) -> tuple[_Rule, Limit | None]:
    """Return what JSON may hold for a field of a type, and the limit that the type names."""
    if get_origin(hint) is not Annotated:
        return _RULES[hint], None
    kind, limit = get_args(hint)
    rule = _RULES[kind]
    return rule._replace(expected=f"{rule.expected}, {limit}"), limit


class _JsonBody:
    """The list of a message's fields."""

    def __init__(self, cls: type[Message]) -> None:
        hints = get_type_hints(cls, include_extras=True)
        self._cls: Callable[..., Message] = cls
        self._name = cls.__name__
        self._names = tuple(field.name for field in fields(cls))  # type: ignore[arg-type]
        found = [_rule(hints[name]) for name in self._names]
        self._rules = tuple(rule for rule, _ in found)
        self._limits = tuple(limit for _, limit in found)
        self._fitted = [
            (index, limit)
            for index, limit in enumerate(self._limits)
            if isinstance(limit, Chars | Items)
        ]
        self._values = _getter(self._names)

    def encode(self, message: Message) -> bytes:
        """Return the body; raise TypeError, ValueError or RecursionError if there is none."""
        values = list(self._values(message))
        for index, limit in self._fitted:
            values[index] = limit.fit(values[index])
        return _dumps(values).encode("ascii")

    def decode(self, body: bytes) -> Message:
        """Return the message; raise RemoteProtocolError if it is none."""
        values = self._read(body)
        for index, rule in enumerate(self._rules):
            if type(values[index]) not in rule.types:
                raise self._misfit(index, values[index])
            if rule.convert is not None:
                try:
                    values[index] = rule.convert(values[index])
                except (TypeError, ValueError, KeyError) as error:
                    raise self._misfit(index, values[index]) from error
            limit = self._limits[index]
            if limit is not None and not limit.holds(values[index]):
                raise self._misfit(index, values[index])
        return self._cls(*values)

    def _read(self, body: bytes) -> list[Any]:
        try:
            text = str(body, "utf-8")
            values, end = _loads(text)
        except (ValueError, RecursionError) as error:
            raise RemoteProtocolError(
                f"{self._name}: expected JSON, got garbage: {error}."
            ) from error
        if type(values) is not list or len(values) != len(self._rules) or end != len(text):
            raise RemoteProtocolError(
                f"{self._name}: expected a list of {len(self._rules)} fields and nothing else, "
                f"got {text[:80]!r}."
            )
        return values

    def _misfit(self, index: int, value: object) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"{self._name}.{self._names[index]}: expected {self._rules[index].expected}, "
            f"got {reprlib.repr(value)} ({type(value).__name__})."
        )


def _getter(names: tuple[str, ...]) -> Callable[[Any], Any]:
    # attrgetter is three times as fast as a loop, but gives a bare value for a single name.
    if len(names) > 1:
        return attrgetter(*names)
    return lambda message: [getattr(message, name) for name in names]


def _plain(value: Any) -> Any:
    """Return JSON values for what is none itself."""
    if isinstance(value, WorkerSettings):
        return value.to_json()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


_dumps = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=_plain).encode
_loads = json.JSONDecoder().raw_decode


def _codec(kind: int, cls: type[Message]) -> _Codec:
    if cls is Push:
        return _Codec(kind, encode_push, decode_push)
    if cls is Reply:
        return _Codec(kind, encode_reply, decode_reply)
    body = _JsonBody(cls)
    return _Codec(kind, body.encode, body.decode)


_CODECS = {kind: _codec(kind, cls) for kind, cls in KINDS.items()}
_BY_CLASS: dict[type, _Codec] = {KINDS[kind]: codec for kind, codec in _CODECS.items()}
