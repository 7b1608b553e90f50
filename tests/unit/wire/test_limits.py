"""Fields of messages hold at most their limits, from either side."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from tests.support.hostile import TEXTS
from tests.unit.wire.test_messages import PUSH, REPLY
from tos_notebook.errors import RemoteProtocolError
from tos_notebook.readable import is_readable, readable
from tos_notebook.wire.bodies import decode_body, encode_body
from tos_notebook.wire.frames import MAX_BODY
from tos_notebook.wire.limits import Chars, Items, Span
from tos_notebook.wire.messages import KINDS, Failed, Join
from tos_notebook.wire.settings import WorkerSettings

EXAMPLES: dict[Any, Any] = {
    int: 1, int | None: 1, str: "a", bool: True, list[int]: [1], list[str]: ["a"],
}  # fmt: skip
SETTINGS = WorkerSettings(1, None, {}).to_json()
NUMBERS = {cls: kind for kind, cls in KINDS.items()}


def beyond(limit: Any) -> list[Any]:
    """Return values that a limit does not hold."""
    match limit:
        case Span(low, high):
            return [n for n in (low - 1, high + 1, 2**63, -(2**63)) if not low <= n <= high]
        case Chars(most):
            return ["a" * (most + 1), "\udce9", "\x1b[31m", "\x00", "\u202e"]
        case Items(most, each):
            inner = [[wrong] for wrong in beyond(each)] if each is not None else []
            return [[get_good(each)] * (most + 1), *inner]
    raise TypeError(limit)


def get_good(limit: Any) -> Any:
    return "a" if isinstance(limit, Chars) else 1


def limited() -> list[Any]:
    """Return (message, field, limit) for every limit of a message that travels as JSON."""
    found = []
    for cls in KINDS.values():
        for name, hint in get_type_hints(cls, include_extras=True).items():
            if get_origin(hint) is Annotated and is_dataclass(cls):
                found.append(
                    pytest.param(cls, name, get_args(hint)[1], id=f"{cls.__name__}.{name}")
                )
    return found


def body(cls: Any, changed: str, value: Any) -> bytes:
    hints = get_type_hints(cls)
    values = [
        value
        if f.name == changed
        else EXAMPLES.get(hints[f.name], SETTINGS if f.name == "settings" else "go")
        for f in fields(cls)
    ]
    return json.dumps(values).encode("ascii")


@pytest.mark.parametrize(("cls", "name", "limit"), limited())
def test_no_field_holds_more_than_its_limit(cls: Any, name: str, limit: Any) -> None:
    for wrong in beyond(limit):
        with pytest.raises(RemoteProtocolError, match=rf"{cls.__name__}\.{name}: expected"):
            decode_body(NUMBERS[cls], body(cls, name, wrong))


def test_every_number_text_and_list_has_a_limit() -> None:
    free = [
        f"{cls.__name__}.{name}"
        for cls in KINDS.values()
        for name, hint in get_type_hints(cls, include_extras=True).items()
        if hint in EXAMPLES and hint is not bool
    ]
    assert free == []


@pytest.mark.parametrize(
    "field", ["epoch", "sequence", "steps", "samples", "base_version", "settings_version", "memory"]
)
@pytest.mark.parametrize("value", [-1, 2**41, 2**63 - 1])
def test_no_number_of_a_push_exceeds_its_limit(field: str, value: int) -> None:
    with pytest.raises(RemoteProtocolError, match=rf"Push\.{field}: expected a number from 0"):
        decode_body(*encode_body(PUSH._replace(**{field: value})))


@pytest.mark.parametrize("field", ["compute", "wait", "exchange", "cpu"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 1e300])
def test_no_time_or_use_in_a_push_is_beyond_reason(field: str, value: float) -> None:
    with pytest.raises(RemoteProtocolError, match=rf"Push\.{field}: expected a number from 0"):
        decode_body(*encode_body(PUSH._replace(**{field: value})))


def test_a_push_brings_only_so_many_metrics() -> None:
    with pytest.raises(RemoteProtocolError, match="Push: expected a body"):
        decode_body(*encode_body(PUSH._replace(metrics=(0.0,) * 257)))


@pytest.mark.parametrize("field", ["version", "settings_version"])
def test_no_version_of_a_reply_exceeds_its_limit(field: str) -> None:
    with pytest.raises(RemoteProtocolError, match=rf"Reply\.{field}: expected a number from 0"):
        decode_body(*encode_body(REPLY._replace(**{field: -1})))


def test_names_of_metrics_are_different() -> None:
    join = Join("run", 0, 0, 0, "here", 1, "", ["a", "a"])
    with pytest.raises(RemoteProtocolError, match=r"Join\.metrics: .* different"):
        decode_body(*encode_body(join))


def test_an_honest_worker_s_metrics_get_through_whatever_their_names() -> None:
    names = [*TEXTS.values(), TEXTS["long"] + "2"]
    joined = decode_body(*encode_body(Join("run", 0, 0, 0, "here", 1, "", names)))
    assert isinstance(joined, Join)
    assert joined.metrics == [readable(name, 256) for name in names]


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("cannot read \udce9.csv", "cannot read \\udce9.csv"),
        ("\x1b[1mKeras\x1b[0m says", "Keras says"),
        ("bell \x07", "bell \\x07"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("Zürich 東京 🐍", "Zürich 東京 🐍"),
    ],
)
def test_an_honest_worker_s_error_gets_through_whatever_its_text(said: str, heard: str) -> None:
    failed = decode_body(*encode_body(Failed(said, [said], False, 0, [])))
    assert isinstance(failed, Failed)
    assert (failed.message, failed.frames) == (heard, [heard])


def test_an_honest_worker_s_error_gets_through_however_long_it_is() -> None:
    kind, body = encode_body(Failed("🐍" * 10**6, ["🐍" * 10**5] * 1000, False, 0, []))
    failed = decode_body(kind, body)
    assert isinstance(failed, Failed)
    assert (len(failed.message), len(failed.frames), len(failed.frames[0])) == (32_768, 64, 600)
    assert len(body) <= MAX_BODY
    assert is_readable(failed.message)
