"""What is said of a cluster, which GPUs its nodes see, and what can be sent to them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.unit.nodes.test_roster import joined
from tos_notebook.errors import UnsupportedProgram
from tos_notebook.nodes.gpus import visible
from tos_notebook.nodes.roster import Roster
from tos_notebook.nodes.sendable import check_sendable
from tos_notebook.nodes.snapshot import fed

LOCK = threading.Lock()


def test_a_node_sees_the_gpus_that_are_named_or_all_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible({}, tmp_path) == ""
    for name in ("nvidia10", "nvidia2", "nvidiactl"):
        (tmp_path / name).touch()
    assert visible({}, tmp_path) == "2,10"
    assert visible({"CUDA_VISIBLE_DEVICES": "1"}, tmp_path) == "1"
    assert visible({"CUDA_VISIBLE_DEVICES": "-1"}, tmp_path) == ""


def test_lines_are_counted_beyond_those_that_are_kept() -> None:
    roster = Roster(1)
    (node,) = joined(roster, 0)
    roster.report(node, ["a"] * 600, 0, True)
    roster.report(node, ["b"] * 2, 0, True)
    assert (node.said, len(node.lines)) == (602, 500)


def test_partitions_that_were_fed_count_once_and_anew_in_each_feeding() -> None:
    roster = Roster(1)
    assert roster.partitions_fed == 0
    feed = roster.begin_feed()
    for partition in (0, 1, 1):
        roster.end_task(feed, partition)
    roster.end_feed(feed)
    assert roster.partitions_fed == 2
    roster.begin_feed()
    assert roster.partitions_fed == 0


def test_a_function_that_can_be_sent_passes() -> None:
    check_sendable(lambda args, ctx: None, {"a": 1})


def test_what_of_a_function_cannot_be_sent_is_named() -> None:
    here = threading.Lock()

    def main(args: Any, ctx: Any) -> None:
        def inner() -> Any:
            return here

        inner()

    with pytest.raises(UnsupportedProgram, match="main uses here, which cannot be sent"):
        check_sendable(main, None)
    with pytest.raises(UnsupportedProgram, match="args of type lock cannot be sent"):
        check_sendable(lambda args, ctx: None, LOCK)


def test_feeding_is_told_in_words() -> None:
    told = fed({"data": "x", "epoch": 1, "epochs": 2, "partitions": 4, "fed": 3, "over": False})
    assert told == "x, epoch 1 of 2, 3 of 4 partitions"
