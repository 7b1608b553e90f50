"""What comes from a Spark Connect server runs nothing in the client."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections import Counter, OrderedDict
from typing import Any

import numpy as np
import pytest

from tos_notebook.blocks.skips import Advice
from tos_notebook.cluster.remote.values import read
from tos_notebook.common.content import Content
from tos_notebook.errors import ConnectError
from tos_notebook.nodes import spawn
from tos_notebook.steering.machine import Command
from tos_notebook.transport.base import Address


class Calls:
    """Its pickle calls a function."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self._made = call, arguments

    def __reduce__(self) -> Any:
        return self._made


@pytest.mark.parametrize(
    "value",
    [
        (None, True, 3, 2.5, 1j, "text", b"bytes", bytearray(b"more"), [1], {2}, frozenset({3})),
        {"counts": Counter("abc"), "order": OrderedDict(a=1), "range": range(3)},
        np.float32(1.5),
        np.int64(3),
        np.bool_(True),
        np.dtype("float16"),
        Command.PAUSE,
    ],
)
def test_plain_values_come_as_they_are(value: Any) -> None:
    assert read(pickle.dumps(value, 5)) == value


@pytest.mark.parametrize("kind", ["float32", "int64", "bool", "U7", "O", "datetime64[s]"])
@pytest.mark.parametrize("protocol", [4, 5])
def test_arrays_come_as_they_are(kind: str, protocol: int) -> None:
    value = np.ones((2, 3)).astype(kind)
    found = read(memoryview(pickle.dumps({"a": value, "b": value.T}, protocol)))
    np.testing.assert_array_equal(found["a"], value)
    np.testing.assert_array_equal(found["b"], value.T)


def test_records_of_this_package_come_as_they_are() -> None:
    assert Advice in read(pickle.dumps([Advice, Content], 5))


@pytest.mark.parametrize(
    "value",
    [
        Calls(os.system, "exit 1"),
        Calls(subprocess.Popen, "false"),
        Calls(eval, "1"),
        Calls(getattr, "text", "upper"),
        Calls(spawn.os.system, "exit 1"),
        [{"deep": (Calls(os.system, "exit 1"),)}],
        os.system,
    ],
)
def test_nothing_else_is_made_or_called(value: Any) -> None:
    with pytest.raises(ConnectError, match="other than numbers, texts, arrays and records"):
        read(pickle.dumps(value, 5))


@pytest.mark.parametrize(
    ("module", "name"),
    [("tos_notebook.nodes.spawn", "os.system"), ("tos_notebook.cluster.connect", "connect")],
)
def test_nor_what_a_module_of_this_package_imports_or_does(module: str, name: str) -> None:
    """By a pickle that Python itself would not write."""
    content = b"\x80\x04" + b"".join(
        b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name)
    )
    with pytest.raises(ConnectError, match=r"records of this package"):
        read(content + b"\x93.")


@pytest.mark.parametrize("name", ["port", "other"])
def test_nor_is_a_class_changed_in_the_place_of_an_object(name: str) -> None:
    before = dict(vars(Address))
    state = pickle.dumps((None, {name: 7}), 2)[2:-1]
    with pytest.raises(ConnectError, match="records of this package: another Address"):
        read(pickle.dumps(Address, 2)[:-1] + state + b"b.")
    assert dict(vars(Address)) == before
    assert Address("host", 1).port == 1
