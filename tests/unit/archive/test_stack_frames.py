"""Frames without TensorFlow: which lines are the user's, and which operation a node is."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tos_notebook
from tos_notebook.archive.stack_frames import Frames, collect, ends_of, nodes_in

OURS = str(Path(tos_notebook.__file__).parent / "program" / "keras.py")
THEIRS = "/usr/lib/python3/site-packages/keras/layer.py"
STANDARD = sysconfig.get_paths()["stdlib"] + "/threading.py"


@dataclass
class Frame:
    filename: str
    lineno: int
    name: str = "call"


@dataclass
class Operation:
    traceback: list[Frame] | None


def frames(named: dict[str, Any], *layers: str) -> Frames:
    return Frames(collect([(k, Operation(v)) for k, v in named.items()], layers))


def test_only_the_users_frames_count_innermost_last(tmp_path: Path) -> None:
    """With the source's line, where there is a source."""
    model = tmp_path / "model.py"
    model.write_text("first\n    return x @ w\n")
    stack = [
        Frame(STANDARD, 1),
        Frame("/tmp/ipykernel_7/1.py", 3, "<module>"),
        Frame(THEIRS, 5),
        Frame(str(model), 2),
        Frame("<frozen runpy>", 9),
    ]
    assert frames({"dense/MatMul": stack}).of("dense/MatMul") == [
        '  File "/tmp/ipykernel_7/1.py", line 3, in <module>',
        f'  File "{model}", line 2, in call\n    return x @ w',
    ]


def test_who_called_the_export_does_not_count() -> None:
    stack = [Frame("/home/me/start.py", 1), Frame(OURS, 2), Frame("/home/me/model.py", 3)]
    assert frames({"a": stack}).of("a") == ['  File "/home/me/model.py", line 3, in call']


@pytest.mark.parametrize("stack", [None, [], [Frame(THEIRS, 1)]])
def test_operations_of_nobody_have_none(stack: Any) -> None:
    assert frames({"a": stack}).of("a") == []


def test_an_unknown_operation_has_none() -> None:
    assert frames({"dense/MatMul": [Frame("/home/me/model.py", 3)]}).of("MatMul") == []


def test_of_two_operations_with_one_name_the_first_counts() -> None:
    first, second = [Frame("/a.py", 1)], [Frame("/b.py", 2)]
    made = collect([("x", Operation(first)), ("x", Operation(second))])
    assert Frames(made).of("x") == ['  File "/a.py", line 1, in call']


def test_equal_frames_are_kept_once() -> None:
    named = {f"op_{i}": [Frame("/home/me/model.py", 3)] for i in range(100)}
    content = collect([(k, Operation(v)) for k, v in named.items()])
    assert content.count(b"model.py") == 1
    assert Frames(content).of("op_99") == Frames(content).of("op_0")


def test_ends_of_a_name_come_longest_first() -> None:
    assert list(ends_of("while/body/a/b")) == ["while/body/a/b", "body/a/b", "a/b", "b"]


@pytest.mark.parametrize(
    ("node", "line"),
    [
        ("sequential_1/embedding_1/GatherV2", "  in layer 'embedding' (Kind)"),
        ("while/model/dense_2_1/inner/MatMul", "  in layer 'dense_2' (Kind)"),
        ("model/dense_2/MatMul", "  in layer 'dense_2' (Kind)"),
        ("loss/log", "  in operation 'loss/log' (Kind)"),
    ],
)
def test_a_layer_is_found_in_the_name_of_a_node(node: str, line: str) -> None:
    assert frames({}, "embedding", "dense_2").place(node, "Kind") == line


@pytest.mark.parametrize(
    ("message", "nodes"),
    [
        ("Detected at node a/b defined at (most recent call last):\n [[{{node a/b}}]]", ["a/b"]),
        ("bad\n\t [[{{node a}}]]\n\t [[{{node b}}]]", ["a", "b"]),
        ("Node: 'a/b'\nbad", ["a/b"]),
        ("bad", []),
    ],
)
def test_nodes_are_read_from_the_message(message: str, nodes: list[str]) -> None:
    assert nodes_in(message) == nodes
