"""Messages between a worker and the server, and their JSON bodies.

A body is the positional list of a message's fields: short, quick to read, and with nothing
in it that could be executed. Non-finite floats travel as ``NaN`` and ``Infinity``, since a
loss may well be one.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterable
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
    """A worker opens its partition.

    `task` is Spark's task attempt id, the owner's token. `segment` names shared memory of the
    worker's host in which updates and replies could lie (see `transport.shared`), or is empty.
    """

    run: str
    partition: int
    attempt: int
    task: int
    host: str
    pid: int
    segment: str


@dataclass(frozen=True, slots=True)
class Joined:
    """Go on in `epoch` after `steps` committed batches, from `sequence`. Payload: the center.

    With `shared`, payloads of `Joined`, `Push` and `Reply` lie in the worker's segment instead
    of following the frame.
    """

    epoch: int
    steps: int
    sequence: int
    version: int
    last_epoch: int
    settings: Settings
    settings_version: int
    directive: Directive
    shared: bool


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
    """The program or the data raised: the exception's text and its traceback's lines.

    `in_program`: it was an operation of the program, which would fail again.
    """

    message: str
    frames: list[str]
    in_program: bool


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


def encode_body(message: Message) -> tuple[int, bytes]:
    """Return a message's kind, and its fields as a JSON list.

    Raises
    ------
    LocalProtocolError
        Not a message, or a field that JSON cannot say (a numpy integer, for example).
    """
    codec = _BY_CLASS.get(type(message))
    if codec is None:
        names = ", ".join(cls.__name__ for cls in KINDS.values())
        raise LocalProtocolError(f"Expected a message ({names}), got {type(message).__name__}.")
    try:
        return codec.kind, _dumps(codec.values(message)).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise LocalProtocolError(
            f"{codec.name} cannot be sent: {error}. "
            "Expected plain Python numbers, strings, lists and dictionaries."
        ) from error


def decode_body(kind: int, body: bytes | bytearray | memoryview) -> Message:
    """Rebuild a message from what `encode_body` made of it.

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
    # One comparison tells that all is as usual; only what is not is looked at field by field.
    if tuple(map(type, values)) != codec.usual:
        _check_types(codec, values)
    for index, convert in codec.conversions:
        try:
            values[index] = convert(values[index])
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            raise _misfit(codec, index, values[index]) from error
    return codec.cls(*values)


class _Rule(NamedTuple):
    """What JSON may hold for a field, the usual type first; `convert` may raise further."""

    expected: str
    types: tuple[type, ...]
    convert: Callable[[Any], Any] | None = None


class _Codec(NamedTuple):
    kind: int
    cls: Callable[..., Message]
    name: str
    names: tuple[str, ...]
    rules: tuple[_Rule, ...]
    usual: tuple[type, ...]
    conversions: tuple[tuple[int, Callable[[Any], Any]], ...]
    values: Callable[[Any], Any]


def _each(types: tuple[type, ...], values: Iterable[Any]) -> None:
    for value in values:
        if type(value) not in types:
            raise TypeError(value)


def _dimensions(value: list[Any]) -> list[int]:
    _each((int,), value)
    if any(size < 0 for size in value):
        raise ValueError(value)
    return value


def _lines(value: list[Any]) -> list[str]:
    _each((str,), value)
    return value


def _numbers(value: dict[str, Any]) -> dict[str, float]:
    _each((float, int), value.values())
    return {name: float(number) for name, number in value.items()}


# Types are compared exactly: to JSON a bool is no integer. A float may come as an integer.
_RULES: dict[Any, _Rule] = {
    int: _Rule("an integer", (int,)),
    str: _Rule("a string", (str,)),
    float: _Rule("a number", (float, int)),
    bool: _Rule("true or false", (bool,)),
    Settings: _Rule("an object", (dict,)),
    Settings | None: _Rule("an object or null", (type(None), dict)),
    dict[str, float]: _Rule("an object of numbers", (dict,), _numbers),
    list[int]: _Rule("a list of integers from 0", (list,), _dimensions),
    list[str]: _Rule("a list of strings", (list,), _lines),
    Directive: _Rule(
        f"one of {[str(d) for d in Directive]}", (str,), {str(d): d for d in Directive}.__getitem__
    ),
    Status: _Rule(
        f"one of {list(get_args(Status))}", (str,), {s: s for s in get_args(Status)}.__getitem__
    ),
}


def _make_codec(kind: int, cls: type[Message]) -> _Codec:
    hints = get_type_hints(cls)
    names = tuple(field.name for field in fields(cls))
    rules = tuple(_RULES[hints[name]] for name in names)
    usual = tuple(rule.types[0] for rule in rules)
    conversions = tuple((i, rule.convert) for i, rule in enumerate(rules) if rule.convert)
    return _Codec(kind, cls, cls.__name__, names, rules, usual, conversions, _getter(names))


def _getter(names: tuple[str, ...]) -> Callable[[Any], Any]:
    # attrgetter is three times as fast as a loop, but gives a bare value for a single name.
    if len(names) > 1:
        return attrgetter(*names)
    return lambda message: [getattr(message, name) for name in names]


_CODECS = {kind: _make_codec(kind, cls) for kind, cls in KINDS.items()}
_BY_CLASS: dict[type, _Codec] = {KINDS[kind]: codec for kind, codec in _CODECS.items()}
_dumps = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_loads = json.JSONDecoder().raw_decode


def _read_list(codec: _Codec, body: bytes | bytearray | memoryview) -> list[Any]:
    try:
        text = str(body, "utf-8")
        values, end = _loads(text)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"{codec.name}: expected JSON, got garbage: {error}.") from error
    if type(values) is not list or len(values) != len(codec.rules) or end != len(text):
        raise RemoteProtocolError(
            f"{codec.name}: expected a list of {len(codec.rules)} fields and nothing else, "
            f"got {text[:80]!r}."
        )
    return values


def _check_types(codec: _Codec, values: list[Any]) -> None:
    """Make integers floats where floats belong; refuse what is of no allowed type."""
    for index, rule in enumerate(codec.rules):
        value = values[index]
        if type(value) not in rule.types:
            raise _misfit(codec, index, value)
        if rule.types[0] is float:
            try:
                values[index] = float(value)
            except OverflowError as error:
                raise _misfit(codec, index, value) from error


def _misfit(codec: _Codec, index: int, value: object) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"{codec.name}.{codec.names[index]}: expected {codec.rules[index].expected}, "
        f"got {reprlib.repr(value)} ({type(value).__name__})."
    )
