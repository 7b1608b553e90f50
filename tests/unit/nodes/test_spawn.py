"""Only the keeper of a node's process ends or reaps it, and the process's end has a cause."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.unit.worker.support import until
from tos_notebook.errors import WorkerError
from tos_notebook.nodes import detached
from tos_notebook.nodes.body import Body
from tos_notebook.nodes.hub import Hub
from tos_notebook.nodes.kept import LONGEST_PART, Kept, KeptHere
from tos_notebook.nodes.plan import NodePlan, ServerAddress
from tos_notebook.nodes.spawn import Process, start
from tos_notebook.tensorflowonspark.legacy_keras import WithLegacyKeras
from tos_notebook.transport.auth import new_secret


@pytest.fixture
def body() -> Iterator[Body]:
    server = ServerAddress.of("127.0.0.1", 1, new_secret(), None)
    with socket.socket() as port:
        yield Body(NodePlan(server, {"worker": [0]}), 0, print, None, "127.0.0.1", port)


def test_a_process_that_ends_at_once_is_told_so_and_reaped_by_its_keeper_only(
    body: Body, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    kept = Kept(start(body, fork=False))
    # It looks at whatever it has started before.
    subprocess.run(["true"], check=True)
    try:
        with pytest.raises(WorkerError, match="did not begin"):
            kept.wait_for_inbox(10.0)
    finally:
        kept.kill()
    assert kept.outcome()["message"].endswith("exit code 1.")


def test_an_interrupt_of_the_notebook_does_not_reach_a_node_beside_it(
    body: Body, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    kept = Kept(start(body, fork=False))
    try:
        # Kernels interrupt all processes of their group.
        assert os.getpgid(kept.process.pid) != os.getpgid(0)
    finally:
        kept.kill()
    assert kept.outcome()["message"].endswith(
        f"{signal.SIGKILL.name} ended it; it may have run out of memory."
    )


def test_a_function_that_cannot_be_sent_starts_nothing_and_leaves_nothing_open(body: Body) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    body.args = threading.Lock()
    with pytest.raises(TypeError, match="pickle"):
        start(body, fork=False)
    assert set(Path("/proc/self/fd").iterdir()) == before


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_keeps_a_node_from_beginning_is_told(body: Body) -> None:
    body.host = "192.0.2.7"
    kept = Kept(start(body, fork=True))
    try:
        with pytest.raises(WorkerError) as caught:
            kept.wait_for_inbox(10.0)
    finally:
        kept.kill()
    assert any("Cannot listen on 192.0.2.7" in line for line in caught.value.frames)


def test_a_progress_bar_without_line_ends_is_shown_and_takes_no_memory() -> None:
    (orders, to_orders), (from_news, news), (from_output, output) = (os.pipe() for _ in "123")
    kept: Any = KeptHere(Process(os.getpid(), to_orders, from_news, from_output))
    try:
        with os.fdopen(output, "wb") as printed:
            printed.write(b"\r." * LONGEST_PART)
            printed.flush()
            until(lambda: len(kept.last_lines()) == 2, 10.0)
    finally:
        os.close(news)
        kept.kill()
        os.close(orders)


@pytest.mark.parametrize("echo", [True, False])
def test_what_a_node_prints_is_not_printed_twice_where_someone_shows_it(
    capfd: pytest.CaptureFixture[str], echo: bool
) -> None:
    (orders, to_orders), (from_news, news), (from_output, output) = (os.pipe() for _ in "123")
    sleeping = subprocess.Popen(["sleep", "60"])
    sleeping.returncode = 0
    kept = Kept(Process(sleeping.pid, to_orders, from_news, from_output), echo)
    os.write(output, b"hello\n")
    for descriptor in (output, news, orders):
        os.close(descriptor)
    kept.kill()
    assert kept.last_lines() == ["hello"]
    assert capfd.readouterr().err == ("hello\n" if echo else "")


def test_a_failure_has_no_frames_of_what_has_called_the_function(
    body: Body, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(args: Any, ctx: Any) -> None:
        json.loads("[")

    monkeypatch.setattr(os, "environ", dict(os.environ))
    body.main = WithLegacyKeras(main)
    outcome = body._call(Hub(), {"start": []})
    first, *others = outcome["frames"]
    assert "in main" in first
    assert "json" in others[-1]
    assert not any("tos_notebook" in frame for frame in outcome["frames"])


@pytest.mark.parametrize("known", [True, False])
def test_what_fails_in_a_node_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], known: bool
) -> None:
    def run(tell: Callable[[], object]) -> None:
        if known:
            tell()
        raise WorkerError("mine")

    monkeypatch.setattr(detached, "close_inherited", lambda kept: None)
    monkeypatch.setattr(os, "_exit", lambda code: None)
    reader, writer = os.pipe()
    detached._keep_detached(MagicMock(run=run), writer, 0)
    os.close(reader)
    assert capsys.readouterr().err.startswith("mine") is not known


def test_a_detached_keeper_knows_when_its_executor_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = shutil.copy(shutil.which("sleep") or "", tmp_path / "java")
    monkeypatch.setattr(os, "setpgid", lambda pid, group: None)
    keeper = MagicMock()
    with subprocess.Popen([java, "600"]) as jvm:
        try:
            # Its name is this process's until it has begun.
            until(lambda: detached.jvm_of(jvm.pid) == jvm.pid)
            detached._leave_group(keeper, jvm.pid)
            assert not keeper.orphaned()
        finally:
            jvm.kill()
    assert keeper.orphaned()
    assert detached.jvm_of(jvm.pid) == 0
