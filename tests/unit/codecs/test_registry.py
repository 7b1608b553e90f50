"""Codecs by name, and whatever a user gives as one."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from tests.unit.codecs.support import NAMES
from tos_notebook.codecs import CODECS, FP32, Int8, PowerSGD, Sign, TopK, as_codec, describe
from tos_notebook.errors import CodecError, ConfigError


@pytest.mark.parametrize("name", NAMES)
def test_a_codec_and_its_name_say_the_same(name: str) -> None:
    codec = as_codec(name)
    assert str(codec) == repr(codec) == name
    assert as_codec(codec) is codec
    assert codec == as_codec(str(codec))
    assert codec.feedback == name.endswith("+ef")


@pytest.mark.parametrize(
    ("spelling", "codec"),
    [
        ("FP32", FP32()),
        (" Int8+EF ", Int8(feedback=True)),
        ("topk+ef", TopK(0.01, feedback=True)),
        ("topk:1e-3+ef", TopK(0.001, feedback=True)),
        ("topk:1+ef", TopK(1.0, feedback=True)),
        ("powersgd+ef", PowerSGD(4, feedback=True)),
    ],
)
def test_spellings_and_defaults_have_one_canonical_name(spelling: str, codec: Any) -> None:
    assert as_codec(spelling) == codec
    assert as_codec(str(as_codec(spelling))) == codec


def test_codecs_of_different_parameters_differ() -> None:
    assert len({as_codec(name) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_codec_travels_to_executors(name: str) -> None:
    assert pickle.loads(pickle.dumps(as_codec(name))) == as_codec(name)


def test_a_codec_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        as_codec("topk:0.01+ef").fraction = 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("int9", "No codec is named 'int9'. Did you mean int8"),
        ("topkk:0.1+ef", "Did you mean topk"),
        ("qqq", r"'qqq'\. Known: fp32, .*topk:0\.01\+ef"),
        ("", "No codec is named ''"),
        ("int8+fe", r"No codec is named 'int8\+fe'. Did you mean int8"),
        ("topk:0.1:2+ef", "No codec is named"),
        ("topk:0+ef", "fraction above 0 and up to 1, got 0.0"),
        ("topk:1.5+ef", "fraction above 0 and up to 1, got 1.5"),
        ("topk:nan+ef", "fraction above 0 and up to 1, got nan"),
        ("topk:few+ef", "expected a number as fraction, got 'few'"),
        ("topk:+ef", "expected a number as fraction, got ''"),
        ("powersgd:0+ef", "rank: expected a whole number of at least 1, got 0"),
        ("powersgd:1.5+ef", "expected a number as rank, got '1.5'"),
        ("int8:4", "int8 takes no parameter, got '4'"),
        ("sign", r"sign needs error feedback.* Write sign\+ef"),
        ("topk:0.1", r"needs error feedback.* Write topk:0\.1\+ef"),
        ("powersgd:2", r"needs error feedback.* Write powersgd:2\+ef"),
        ("fp32+ef", "fp32 loses nothing"),
        (None, "Expected a codec or its name.* got None of type NoneType"),
        (Sign, "Expected a codec or its name"),
    ],
)
def test_what_is_no_codec_is_refused_with_what_to_write(value: Any, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        as_codec(value)


def test_parameters_are_checked_without_a_name_too() -> None:
    with pytest.raises(ConfigError, match="rank"):
        PowerSGD(True, feedback=True)
    with pytest.raises(CodecError, match="fraction"):
        TopK(True, feedback=True)
    with pytest.raises(CodecError, match="needs error feedback"):
        Sign()
    assert str(TopK(1, feedback=True)) == "topk:1.0+ef"


def test_the_description_is_complete_and_plain() -> None:
    rows = describe()
    assert json.loads(json.dumps(rows)) == rows
    assert [row["name"] for row in rows] == list(CODECS)
    for row in rows:
        assert row["rule"]
        assert row["source"]
        assert row["when"]
        codec = as_codec(row["example"])
        assert (codec.name, codec.ratio) == (row["name"], row["ratio"])
        assert (row["feedback"] == "required") == codec.feedback
    by_name = {row["name"]: row for row in rows}
    assert by_name["fp32"]["feedback"] == "none"
    assert by_name["int8"]["feedback"] == "optional"
    assert by_name["topk"]["example"] == "topk:0.01+ef"


def test_what_a_server_must_know_of_a_codec() -> None:
    assert [name for name, codec in CODECS.items() if codec.lossless] == ["fp32"]
    assert [name for name, codec in CODECS.items() if codec.sparse] == ["topk"]
    biased = [name for name, codec in CODECS.items() if codec.biased]
    assert biased == ["sign", "topk", "powersgd"]
