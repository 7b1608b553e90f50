from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.errors import LocalProtocolError, RemoteProtocolError, VersionMismatch
from tos_notebook.wire.bodies import decode_body
from tos_notebook.wire.frames import (
    HEADER,
    HEADER_SIZE,
    MAGIC,
    MAX_BODY,
    VERSION,
    Header,
    decode_header,
    encode_head,
    encode_header,
)
from tos_notebook.wire.messages import KINDS, Directive, Fetch, Proceed
from tos_notebook.wire.settings import WorkerSettings

HEADERS = st.builds(
    Header,
    st.sampled_from(sorted(KINDS)),
    st.integers(0, 2**32 - 1),
    st.integers(0, MAX_BODY),
    st.integers(0, 2**64 - 1),
)
GOOD = {"magic": MAGIC, "version": VERSION, "kind": 3, "flags": 0, "seq": 1, "body": 2, "len": 3}


def _packed(**changes: object) -> bytes:
    return HEADER.pack(*(GOOD | changes).values())


@given(HEADERS)
def test_a_header_comes_back_as_it_went(header: Header) -> None:
    assert decode_header(encode_header(*header)) == header


@given(HEADERS, st.binary(max_size=40))
def test_what_follows_a_header_does_not_matter_to_it(header: Header, tail: bytes) -> None:
    assert decode_header(memoryview(encode_header(*header) + tail)) == header


@pytest.mark.parametrize("size", range(HEADER_SIZE))
def test_a_header_cut_at_any_byte_is_refused(size: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"{HEADER_SIZE} bytes, got {size}"):
        decode_header(_packed()[:size])


@given(st.binary(min_size=HEADER_SIZE, max_size=HEADER_SIZE))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="TOSN"):
        decode_header(b"\0" + data[1:])


@given(HEADERS, st.integers(0, HEADER_SIZE - 1), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_gives_another_valid_header(
    header: Header, place: int, value: int
) -> None:
    data = bytearray(encode_header(*header))
    data[place] = value
    try:
        back = decode_header(data)
    except (RemoteProtocolError, VersionMismatch):
        assert bytes(data) != encode_header(*header)
    else:
        assert encode_header(*back) == bytes(data)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"magic": b"HTTP"}, "HTTP"),
        ({"kind": 0}, "got 0"),
        ({"kind": 200}, "got 200"),
        ({"flags": 1}, "flags 0"),
        ({"body": MAX_BODY + 1}, str(MAX_BODY + 1)),
        ({"body": 2**32 - 1}, str(MAX_BODY)),
    ],
)
def test_a_header_outside_the_rules_says_which(changes: dict[str, object], text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        decode_header(_packed(**changes))


def test_another_version_is_told_with_both_versions() -> None:
    with pytest.raises(VersionMismatch, match=f"version {VERSION}, .* version 9"):
        decode_header(_packed(version=9, kind=250, flags=7))


@pytest.mark.parametrize(
    "header",
    [
        Header(0, 1, 1, 1),
        Header(1, 1, MAX_BODY + 1, 1),
        Header(1, 2**32, 1, 1),
        Header(1, -1, 1, 1),
        Header(1, 1, 1, 2**64),
    ],
)
def test_a_header_that_cannot_be_sent_is_our_own_mistake(header: Header) -> None:
    with pytest.raises(LocalProtocolError):
        encode_header(*header)


def test_a_head_is_header_and_body() -> None:
    head = encode_head(Fetch(4), 9, 100)
    kind, sequence, body, payload = decode_header(head)
    assert (sequence, body, payload) == (9, len(head) - HEADER_SIZE, 100)
    assert decode_body(kind, head[HEADER_SIZE:]) == Fetch(4)


def test_a_message_that_is_too_long_is_not_sent() -> None:
    settings = WorkerSettings(1, None, {"codec": "x" * MAX_BODY})
    with pytest.raises(LocalProtocolError, match=str(MAX_BODY)):
        encode_head(Proceed(Directive.GO, 0, settings), 1, 0)
