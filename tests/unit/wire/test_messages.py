from __future__ import annotations

import json
import math
import struct
from contextlib import suppress
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook import errors
from tos_notebook.common.content import DIGEST_SIZE
from tos_notebook.errors import LocalProtocolError, RemoteProtocolError
from tos_notebook.readable import is_readable
from tos_notebook.wire import limits
from tos_notebook.wire.bodies import decode_body, encode_body
from tos_notebook.wire.frames import encode_head
from tos_notebook.wire.limits import MOST
from tos_notebook.wire.messages import (
    KINDS,
    Directive,
    Failed,
    Fetch,
    Proceed,
    Push,
    Refused,
    Reply,
    Rows,
    Status,
)
from tos_notebook.wire.refusals import error_of, refusal_of
from tos_notebook.wire.settings import WorkerSettings

TEXTS = st.text(max_size=256).filter(is_readable)
SETTINGS = st.builds(
    WorkerSettings,
    st.integers(1, MOST),
    st.none() | st.floats(0, allow_infinity=False),
    st.dictionaries(TEXTS, TEXTS, max_size=3),
    st.dictionaries(TEXTS, st.booleans() | st.floats(0), max_size=3),
)
COUNTS = st.integers(0, MOST)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    bytes: st.binary(min_size=DIGEST_SIZE, max_size=DIGEST_SIZE),
    float: st.floats(allow_nan=False),
    limits.Count: COUNTS,
    limits.Maybe: st.none() | COUNTS,
    limits.Token: st.integers(0, 2**63 - 1),
    limits.Seconds: st.floats(0, 1e9),
    limits.Cores: st.floats(0, 1e9),
    limits.Name: TEXTS,
    limits.Short: TEXTS,
    limits.Text: TEXTS,
    limits.Names: st.lists(TEXTS, max_size=4, unique=True),
    limits.Hosts: st.lists(TEXTS, max_size=4),
    limits.Lines: st.lists(TEXTS, max_size=4),
    limits.Pair: st.lists(COUNTS, max_size=2),
    limits.Shape: st.lists(COUNTS, max_size=4),
    limits.Labels: st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
    limits.Counts: st.lists(COUNTS, max_size=4),
    limits.Metrics: st.lists(st.floats(allow_nan=False), max_size=3).map(tuple),
    WorkerSettings: SETTINGS,
    WorkerSettings | None: st.none() | SETTINGS,
    Directive: st.sampled_from(Directive),
    Status: st.sampled_from(get_args(Status)),
}
PUSH = Push(1, 2, 10, 1000, 7, 3, True, 0.5, 0.1, 0.0, 0.01, 0.9, 4096, (0.9,))
REPLY = Reply(1, 1, "committed", Directive.GO, WorkerSettings(1, None, {}))


def _instances(cls: type) -> st.SearchStrategy[Any]:
    hints = get_type_hints(cls, include_extras=True)
    return st.builds(cls, *(VALUES[hint] for hint in hints.values()))


MESSAGES = st.sampled_from(list(KINDS.values())).flatmap(_instances)


@given(MESSAGES)
def test_every_message_comes_back_as_it_went(message: Any) -> None:
    kind, body = encode_body(message)
    assert KINDS[kind] is type(message)
    assert decode_body(kind, body) == message


@pytest.mark.parametrize("loss", [math.inf, -math.inf, math.nan])
def test_a_loss_that_is_not_finite_travels(loss: float) -> None:
    push = PUSH._replace(loss=loss, metrics=(loss,))
    back = decode_body(*encode_body(push))
    assert isinstance(back, Push)
    np.testing.assert_equal([back.loss, *back.metrics], [loss, loss])


def test_a_whole_number_becomes_a_float_where_a_float_belongs() -> None:
    push = PUSH._replace(loss=1, metrics=(1,))
    back = decode_body(*encode_body(push))
    assert isinstance(back, Push)
    assert type(back.loss) is float
    assert type(back.metrics[0]) is float


def test_a_directive_comes_back_as_one() -> None:
    back = decode_body(*encode_body(Proceed("stop", 1, None)))  # type: ignore[arg-type]
    assert isinstance(back, Proceed)
    assert back.directive is Directive.STOP


@given(st.sampled_from(list(KINDS)), st.binary(max_size=60))
def test_garbage_is_a_protocol_error_or_a_message_and_nothing_else(kind: int, body: bytes) -> None:
    with suppress(RemoteProtocolError):
        assert type(decode_body(kind, body)) is KINDS[kind]


@given(MESSAGES, st.data())
def test_a_body_cut_anywhere_is_refused(message: Any, data: st.DataObject) -> None:
    kind, body = encode_body(message)
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(RemoteProtocolError, match=type(message).__name__):
        decode_body(kind, body[:cut])


@pytest.mark.parametrize("tail", [b" ", b"[]", b"\0", b",1"])
def test_a_body_with_trailing_data_is_refused(tail: bytes) -> None:
    kind, body = encode_body(PUSH)
    with pytest.raises(RemoteProtocolError, match="Push"):
        decode_body(kind, body + tail)


@pytest.mark.parametrize("body", [b"[]", b"[1,2]", b"{}", b"3", b"null", b"[" * 100_000, b"\xff"])
def test_a_body_of_another_form_is_refused_by_name(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="Fetch"):
        decode_body(encode_body(Fetch(1))[0], body)


@pytest.mark.parametrize(
    ("example", "field", "wrong"),
    [
        (Fetch(1), "column", "true"),
        (Fetch(1), "column", "1.0"),
        (Fetch(1), "column", "null"),
        (Rows("uint8", [1]), "shape", "[1,-1]"),
        (Rows("uint8", [1]), "shape", "[true]"),
        (Rows("uint8", [1]), "dtype", "1"),
        (Proceed(Directive.GO, 1, None), "directive", '"run"'),
        (Failed("x", [], False, 0, []), "frames", "[1]"),
    ],
)
def test_a_field_that_does_not_fit_is_named(example: Any, field: str, wrong: str) -> None:
    kind, _ = encode_body(example)
    names = [spec.name for spec in fields(example)]
    values = [wrong if n == field else json.dumps(getattr(example, n)) for n in names]
    with pytest.raises(RemoteProtocolError, match=rf"{type(example).__name__}\.{field}: expected"):
        decode_body(kind, f"[{','.join(values)}]".encode())


@pytest.mark.parametrize("settings", [b"[]", b"3", b"nul", b"[" * 100_000, b"\xff"])
def test_settings_of_a_reply_that_are_no_object_are_refused(settings: bytes) -> None:
    kind, _ = encode_body(REPLY)
    body = struct.pack(">qqBBI", 1, 1, 0, 0, len(settings)) + settings
    with pytest.raises(RemoteProtocolError, match=r"Reply\.settings: expected"):
        decode_body(kind, body)


GOOD = WorkerSettings(2, 0.5, {"codec": "fp32"}, {"slow": 2.0, "kill": False}).to_json()


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("sync_interval", 0),
        ("sync_interval", True),
        ("sync_interval", 1.5),
        ("sync_interval", None),
        ("sync_interval", MOST + 1),
        ("learning_rate", -1.0),
        ("learning_rate", math.nan),
        ("learning_rate", math.inf),
        ("learning_rate", 10**400),
        ("learning_rate", "high"),
        ("learning_rate", True),
        ("strategy", None),
        ("strategy", []),
        ("strategy", {"codec": 1}),
        ("strategy", {"codec": "x" * 32_769}),
        ("strategy", {"codec": "\x1b[31m"}),
        ("strategy", {"x" * 257: ""}),
        ("strategy", {str(number): "" for number in range(17)}),
        ("chaos", None),
        ("chaos", {"slow": "very"}),
        ("chaos", {"slow": []}),
        ("chaos", {"slow": math.nan}),
        ("chaos", {"pause": -1}),
        ("chaos", {"x" * 257: 1}),
        ("chaos", {str(number): 1 for number in range(17)}),
    ],
    ids=lambda value: repr(value)[:30],
)
@pytest.mark.parametrize("packed", [True, False])
def test_settings_beyond_their_limits_are_refused_by_name(
    field: str, wrong: Any, packed: bool
) -> None:
    text = json.dumps(GOOD | {field: wrong}).encode()
    with pytest.raises(RemoteProtocolError, match=rf"WorkerSettings\.{field}: expected"):
        decode_body(*with_settings(text, packed))


@pytest.mark.parametrize("wrong", [{}, {"sync_interval": 1}, GOOD | {"more": 1}], ids=repr)
@pytest.mark.parametrize("packed", [True, False])
def test_settings_have_all_their_fields_and_no_others(wrong: Any, packed: bool) -> None:
    with pytest.raises(RemoteProtocolError, match=r"WorkerSettings: expected an object of"):
        decode_body(*with_settings(json.dumps(wrong).encode(), packed))


def with_settings(text: bytes, packed: bool) -> tuple[int, bytes]:
    """Return kind and body of a message that brings settings, packed or as JSON."""
    if packed:
        return encode_body(REPLY)[0], struct.pack(">qqBBI", 1, 1, 0, 0, len(text)) + text
    kind, _ = encode_body(Proceed(Directive.GO, 1, None))
    return kind, b'["go",1,' + text + b",null]"


@pytest.mark.parametrize(("status", "directive"), [(5, 0), (0, 4), (255, 255)])
def test_an_unknown_status_or_directive_is_refused(status: int, directive: int) -> None:
    kind, _ = encode_body(REPLY)
    with pytest.raises(RemoteProtocolError, match="Reply: expected a status below 5"):
        decode_body(kind, struct.pack(">qqBBI", 1, 1, status, directive, 0))


@pytest.mark.parametrize(
    "push",
    [
        PUSH._replace(epoch=2**63),
        PUSH._replace(steps=1.5),  # type: ignore[arg-type]
        PUSH._replace(loss="low"),  # type: ignore[arg-type]
        PUSH._replace(metrics=("high",)),  # type: ignore[arg-type]
    ],
)
def test_a_push_that_does_not_fit_is_not_sent(push: Push) -> None:
    with pytest.raises(LocalProtocolError, match="Push cannot be sent"):
        encode_body(push)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="kind"):
        decode_body(0, b"[]")


@pytest.mark.parametrize("bad", [np.int64(1), object(), {1, 2}])
def test_what_json_cannot_say_is_our_own_mistake(bad: Any) -> None:
    with pytest.raises(LocalProtocolError, match="Fetch cannot be sent"):
        encode_body(Fetch(bad))


def test_what_is_no_message_is_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="got str"):
        encode_body("hello")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "cls", [errors.ShapeMismatch, errors.NonFiniteUpdate, errors.SessionClosed, errors.TosError]
)
def test_an_error_comes_back_with_class_and_text(cls: type[errors.TosError]) -> None:
    back = error_of(refusal_of(cls("what to do")))
    assert type(back) is cls
    assert str(back) == "what to do"


def test_an_error_without_a_name_on_the_wire_comes_back_as_its_base() -> None:
    class Special(errors.CombinerError):
        pass

    assert type(error_of(refusal_of(Special("x")))) is errors.CombinerError
    back = error_of(refusal_of(errors.InvalidTransition("paused", "swap", "because")))
    assert type(back) is errors.TosError
    assert "because" in str(back)


def test_every_error_of_the_package_has_a_refusal() -> None:
    """None of them may make the server fail while it reports another failure."""
    for cls in vars(errors).values():
        if isinstance(cls, type) and issubclass(cls, errors.TosError):
            error = cls.__new__(cls)
            error.args = ("text",)
            for name in ("message", "executor", "host", "state", "command", "reason"):
                error.__dict__[name] = "text"
            error.__dict__.update(rank=0, partition=0, attempt=0, frames=(), epoch=0, batches=())
            assert "text" in error_of(refusal_of(error)).args[0]


def test_a_foreign_error_tells_the_worker_no_more_than_its_class() -> None:
    refused = refusal_of(ValueError("a private detail"))
    assert refused.error == "RemoteProtocolError"
    assert "ValueError" in refused.text
    assert "private" not in refused.text


def test_a_peer_cannot_name_any_other_class() -> None:
    for name in ("SystemExit", "KeyboardInterrupt", "errors", "", "__builtins__"):
        assert type(error_of(Refused(name, "text"))) is RemoteProtocolError


def test_a_refusal_fits_into_a_body_however_long_its_text() -> None:
    assert encode_head(refusal_of(errors.TosError("\U0001f40d" * 2_000_000)), 1, 0)
