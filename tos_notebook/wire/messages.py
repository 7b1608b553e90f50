"""Messages between a worker and the server, and their JSON bodies.

A body is the positional list of a message's fields: short, quick to read, and with nothing
in it that could be executed. Non-finite floats travel as ``NaN`` and ``Infinity``, since a
loss may well be one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

from ..errors import LocalProtocolError, RemoteProtocolError

Settings = dict[str, Any]
Status = Literal["committed", "duplicate", "skipped", "superseded"]


class Directive(StrEnum):
    """What a worker does next."""

    GO = "go"
    WAIT = "wait"
    STOP = "stop"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class Join:
    """A worker opens its partition. `task` is Spark's task attempt id, the owner's token."""

    run: str
    partition: int
    attempt: int
    task: int
    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class Joined:
    """Go on in `epoch` after `steps` committed batches, from `sequence`. Payload: the center."""

    epoch: int
    steps: int
    sequence: int
    version: int
    last_epoch: int
    settings: Settings
    settings_version: int
    directive: Directive


@dataclass(frozen=True, slots=True)
class Fetch:
    """Ask for one column of the partition's rows."""

    column: int


@dataclass(frozen=True, slots=True)
class Rows:
    """One column. Payload: its raw values in C order, none if it has no rows."""

    dtype: str
    shape: list[int]


@dataclass(frozen=True, slots=True)
class Push:
    """One milestone. Payload: the update. `compute`, `wait` and `exchange` are seconds."""

    epoch: int
    sequence: int
    steps: int
    samples: int
    base_version: int
    settings_version: int
    loss: float
    compute: float
    wait: float
    exchange: float
    metrics: dict[str, float]


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of a push. Payload: the parameters to adopt, none when superseded."""

    version: int
    status: Status
    directive: Directive
    settings_version: int
    settings: Settings | None


@dataclass(frozen=True, slots=True)
class Finish:
    """The partition is used up for this epoch."""

    epoch: int
    samples: int
    steps: int


@dataclass(frozen=True, slots=True)
class Poll:
    """A waiting worker asks whether it may go on."""

    settings_version: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The program or the data raised: the exception's text and its traceback's lines."""

    message: str
    frames: list[str]


@dataclass(frozen=True, slots=True)
class Proceed:
    """What to do next; `settings` when they changed since the worker's version."""

    directive: Directive
    settings_version: int
    settings: Settings | None


@dataclass(frozen=True, slots=True)
class Refused:
    """The server cannot serve a request: an error's class name and its text."""

    error: str
    text: str


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The worker leaves in order. Without it, a lost connection is a lost worker."""


Request = Join | Fetch | Push | Finish | Poll | Failed
Answer = Joined | Rows | Reply | Proceed
Message = Request | Answer | Refused | Goodbye

KINDS: dict[int, type[Message]] = {
    1: Join,
    2: Joined,
    3: Fetch,
    4: Rows,
    5: Push,
    6: Reply,
    7: Finish,
    8: Poll,
    9: Failed,
    10: Proceed,
    11: Refused,
    12: Goodbye,
}


def kind_of(message: Message) -> int:
    """Return the number of a message's class.

    Raises
    ------
    LocalProtocolError
        Its class is none of `KINDS`.
    """
    return _codec_of(message).kind


def encode_body(message: Message) -> bytes:
    """Return a message's fields as a JSON list.

    Raises
    ------
    LocalProtocolError
        Not a message, or a field that JSON cannot say (a numpy integer, for example).
    """
    codec = _codec_of(message)
    try:
        return _dumps(codec.values(message)).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise LocalProtocolError(
            f"{type(message).__name__} cannot be sent: {error}. "
            "Expected plain Python numbers, strings, lists and dictionaries."
        ) from error


def decode_body(kind: int, body: bytes | bytearray | memoryview) -> Message:
    """Rebuild a message from its kind and the bytes of `encode_body`.

    Raises
    ------
    RemoteProtocolError
        An unknown kind, bytes that are no JSON list, or a field missing, in excess or of a
        wrong type; message and field are named.
    """
    codec = _CODECS.get(kind)
    if codec is None:
        raise RemoteProtocolError(f"Expected a kind of {sorted(KINDS)}, got {kind}.")
    values = _read_list(codec, body)
    for index, (name, rule) in enumerate(codec.fields):
        if type(values[index]) not in rule.types:
            raise _misfit(codec, name, rule, values[index])
        if rule.convert is not None:
            try:
                values[index] = rule.convert(values[index])
            except (TypeError, ValueError, OverflowError) as error:
                raise _misfit(codec, name, rule, values[index]) from error
    return codec.cls(*values)


class _Rule(NamedTuple):
    """What JSON may hold for a field; `convert` raises where the types alone do not tell."""

    expected: str
    types: tuple[type, ...]
    convert: Callable[[Any], Any] | None = None


class _Codec(NamedTuple):
    kind: int
    cls: Callable[..., Message]
    name: str
    fields: tuple[tuple[str, _Rule], ...]
    values: Callable[[Any], Any]


def _each(types: tuple[type, ...], values: list[Any]) -> None:
    if not all(type(value) in types for value in values):
        raise TypeError(types)


def _dimensions(value: list[Any]) -> list[int]:
    _each((int,), value)
    if any(size < 0 for size in value):
        raise ValueError(value)
    return value


def _lines(value: list[Any]) -> list[str]:
    _each((str,), value)
    return value


def _numbers(value: dict[str, Any]) -> dict[str, float]:
    _each((int, float), list(value.values()))
    return {name: float(number) for name, number in value.items()}


def _status(value: str) -> str:
    if value not in get_args(Status):
        raise ValueError(value)
    return value


# Types are compared exactly: to JSON a bool is no integer.
_RULES: dict[Any, _Rule] = {
    int: _Rule("an integer", (int,)),
    str: _Rule("a string", (str,)),
    float: _Rule("a number", (float, int), float),
    Settings: _Rule("an object", (dict,)),
    Settings | None: _Rule("an object or null", (dict, type(None))),
    dict[str, float]: _Rule("an object of numbers", (dict,), _numbers),
    list[int]: _Rule("a list of integers from 0", (list,), _dimensions),
    list[str]: _Rule("a list of strings", (list,), _lines),
    Directive: _Rule(f"one of {[str(d) for d in Directive]}", (str,), Directive),
    Status: _Rule(f"one of {list(get_args(Status))}", (str,), _status),
}


def _make_codec(kind: int, cls: type[Message]) -> _Codec:
    hints = get_type_hints(cls)
    names = [field.name for field in fields(cls)]
    rules = tuple((name, _RULES[hints[name]]) for name in names)
    return _Codec(kind, cls, cls.__name__, rules, _getter(names))


def _getter(names: list[str]) -> Callable[[Any], Any]:
    # attrgetter is three times as fast as a loop, but gives a bare value for a single name.
    if len(names) > 1:
        return attrgetter(*names)
    return lambda message: [getattr(message, name) for name in names]


_CODECS = {kind: _make_codec(kind, cls) for kind, cls in KINDS.items()}
_BY_CLASS: dict[type, _Codec] = {KINDS[kind]: codec for kind, codec in _CODECS.items()}
_dumps = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_loads = json.JSONDecoder().decode


def _codec_of(message: Message) -> _Codec:
    try:
        return _BY_CLASS[type(message)]
    except KeyError:
        names = ", ".join(cls.__name__ for cls in KINDS.values())
        raise LocalProtocolError(
            f"Expected a message ({names}), got {type(message).__name__}."
        ) from None


def _read_list(codec: _Codec, body: bytes | bytearray | memoryview) -> list[Any]:
    try:
        values = _loads(str(body, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"{codec.name}: expected JSON, got garbage: {error}.") from error
    if type(values) is not list or len(values) != len(codec.fields):
        got = len(values) if type(values) is list else type(values).__name__
        raise RemoteProtocolError(
            f"{codec.name}: expected a list of {len(codec.fields)} fields, got {got}."
        )
    return values


def _misfit(codec: _Codec, name: str, rule: _Rule, value: object) -> RemoteProtocolError:
    shown = repr(value)[:80]
    return RemoteProtocolError(
        f"{codec.name}.{name}: expected {rule.expected}, got {shown} ({type(value).__name__})."
    )
