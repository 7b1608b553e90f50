"""Checkpoints of parameters in shards: written in parts, or by the driver where that cannot be."""

from __future__ import annotations

import logging
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.threads import LIMIT
from tests.unit.training.checkpoint.test_writer import origin
from tos_notebook.cluster.arrow_storage import ArrowStorage
from tos_notebook.errors import CheckpointError
from tos_notebook.events import CheckpointFailed, CheckpointWritten, Event
from tos_notebook.persist.described import describe
from tos_notebook.steering.trigger import as_trigger
from tos_notebook.strategies import STRATEGIES, ParameterServer
from tos_notebook.strategies.ps.shards.group import Group
from tos_notebook.strategies.ps.shards.writing import PartWriting
from tos_notebook.telemetry.tally import Tally
from tos_notebook.testing.bench import START, Bench, Deadline, Trial
from tos_notebook.training.checkpoint.contents import Checkpoint
from tos_notebook.training.checkpoint.folder import Folder, checkpoint
from tos_notebook.training.checkpoint.reading import last
from tos_notebook.training.checkpoint.writer import YOUNG, CheckpointWriter, Subject

ROWS = np.arange(1.0, 21.0)


class Scene:
    """A run of two shards, and what writes its checkpoints."""

    def __init__(self, place: Path, bench: Bench, keep: int) -> None:
        self.storage, self.now = ArrowStorage(place), 0.0
        self.folder, self.bench = Folder(self.storage), bench
        self.folder.begin()
        self.events: list[Event] = []
        strategy = describe(ParameterServer(shards=2), STRATEGIES)
        every = as_trigger("checkpoint_every", "2 milestones")
        self.writer = CheckpointWriter(
            self.folder, origin(strategy=strategy), every, keep, clock=lambda: self.now
        )
        self.subject = Subject(
            partial(bench.run.snapshot, apart=True), lambda: None, Tally().totals,
            self.events.append, lambda timeout: None,
        )  # fmt: skip
        self.epochs = 0

    def train(self) -> None:
        """Train an epoch."""
        self.bench.begin((ROWS,), 2, range(self.epochs, self.epochs + 1))
        self.bench.work()
        self.epochs += 1

    def save(self) -> CheckpointWritten:
        """Train an epoch, and save it."""
        self.train()
        self.writer.save(self.subject)
        assert not [event for event in self.events if isinstance(event, CheckpointFailed)]
        found = self.events.pop()
        assert isinstance(found, CheckpointWritten)
        return found

    def files(self, start: str) -> list[str]:
        return [name for name in self.storage.list() if name.startswith(start)]

    def last(self) -> tuple[int, Checkpoint]:
        return last(self.folder)

    def total(self, checkpoint: Checkpoint) -> float:
        layout = self.bench.program.spec.layout
        return float(layout.tensors(checkpoint.progress.copied.center)["total"]) - START


@pytest.fixture
def scenes(tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    trial = Trial(ParameterServer(shards=2), Deadline(LIMIT))
    with trial.bench() as bench:
        yield lambda keep=2: Scene(tmp_path / "run", bench, keep)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The orders that shards are given."""
    orders: list[str] = []
    command = Group.command

    def recorded(group: Group, what: str, *given: Any) -> Any:
        orders.append(what)
        return command(group, what, *given)

    monkeypatch.setattr(Group, "command", recorded)
    return orders


def test_shards_write_their_parts_and_the_driver_names_them_last(
    scenes: Callable[..., Scene], sent: list[str]
) -> None:
    scene = scenes()
    scene.train()
    sent.clear()
    scene.writer.save(scene.subject)
    assert sent[:2] == ["copy", "write"]
    assert sent[-1] == "forget"
    assert "send" not in sent
    (written,) = scene.events
    assert isinstance(written, CheckpointWritten)
    parts = ["part-00000001-0000.tos", "part-00000001-0001.tos"]
    assert scene.files("part") == parts
    sizes = [scene.storage.length(name) for name in (*parts, "checkpoint-00000001.tos")]
    assert written.nbytes == sum(sizes)
    number, found = scene.last()
    expected = scene.bench.values()["total"]
    assert (number, scene.total(found)) == (1, expected)
    assert scene.writer.status.note is None


def test_old_parts_go_with_their_checkpoint_and_so_do_those_that_none_names(
    scenes: Callable[..., Scene],
) -> None:
    scene = scenes(keep=1)
    scene.save()
    # Of an attempt that broke off: its process was killed, or all its shards.
    scene.storage.write("part-00000002-0001.tos", b"half")
    scene.writer._number = 2
    scene.now += 2 * YOUNG
    scene.save()
    assert scene.files("checkpoint") == ["checkpoint-00000003.tos"]
    assert scene.files("part") == ["part-00000003-0000.tos", "part-00000003-0001.tos"]
    assert scene.last()[0] == 3


@pytest.mark.parametrize("damage", ["missing", "cut off", "another"])
def test_the_checkpoint_before_is_used_where_a_part_is_not_as_it_was(
    scenes: Callable[..., Scene], damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene = scenes()
    scene.save()
    before = scene.bench.values()["total"]
    scene.save()
    name = "part-00000002-0001.tos"
    content = scene.storage.read(name)
    if damage == "missing":
        scene.storage.delete(name)
    else:
        other = scene.storage.read("part-00000001-0001.tos")
        scene.storage.write(name, content[:-1] if damage == "cut off" else other)
    number, found = scene.last()
    assert (number, scene.total(found)) == (1, before)
    assert name in caplog.text


def test_a_checkpoint_that_names_files_elsewhere_is_passed_over(
    scenes: Callable[..., Scene],
) -> None:
    scene = scenes()
    scene.save()
    named = {"parts": [["../secret", 1, "0" * 64]]}
    scene.folder.write(checkpoint(2), {}, named)
    assert scene.last()[0] == 1


def test_what_was_not_named_is_no_checkpoint(scenes: Callable[..., Scene]) -> None:
    """The driver died between the parts and the file that names them."""
    scene = scenes()
    scene.save()
    scene.storage.write("part-00000002-0000.tos", b"whole")
    assert scene.last()[0] == 1


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """The run's folder after each step of what changes it: what a crash would leave."""
    found: list[Path] = []
    one_at_a_time = threading.Lock()

    def watched(method: Callable[..., Any]) -> Callable[..., Any]:
        def step(storage: ArrowStorage, *given: Any) -> Any:
            with one_at_a_time:
                outcome = method(storage, *given)
                found.append(tmp_path / f"image-{len(found)}")
                shutil.copytree(tmp_path / "run", found[-1])
                return outcome

        return step

    for name in ("_put", "_replace", "delete"):
        monkeypatch.setattr(ArrowStorage, name, watched(getattr(ArrowStorage, name)))
    return found


def test_a_crash_at_any_step_leaves_a_checkpoint_that_is_whole(
    scenes: Callable[..., Scene], images: list[Path]
) -> None:
    scene = scenes(keep=1)
    totals = []
    for _ in range(3):
        scene.now += 2 * YOUNG
        scene.save()
        totals.append(scene.bench.values()["total"])
    found = []
    for image in images:
        folder = Folder(ArrowStorage(image))
        if folder.numbers():
            number, saved = last(folder)
            assert scene.total(saved) == totals[number - 1]
            found.append(number)
    assert found == sorted(found)
    assert set(found) == {1, 2, 3}
    # Two parts, and the file that names them, are put and renamed; as many are deleted later.
    assert len(images) >= 3 * 6 + 2 * 3


def _other_host(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let executors have a folder of their own under the same name."""
    place = scene.folder.place
    monkeypatch.setattr(scene.folder, "place", lambda *given: place(*given)._replace(digest="0"))


def _not_there(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the driver not see what shards have written."""
    monkeypatch.setattr(scene.storage, "length", lambda name: 0)


def _no_room(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*given: Any) -> None:
        raise CheckpointError("No space left on device")

    monkeypatch.setattr(PartWriting, "_write", write)


@pytest.mark.parametrize(
    ("hinder", "why"),
    [
        (_other_host, "another folder here than in the driver"),
        (_not_there, r"expected \d+ bytes, as a shard has written them, got 0"),
        (_no_room, "No space left on device"),
    ],
)
def test_the_driver_writes_what_shards_cannot_and_says_so_once(
    scenes: Callable[..., Scene],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    hinder: Callable[[Scene, pytest.MonkeyPatch], None],
    why: str,
) -> None:
    scene = scenes()
    with caplog.at_level(logging.WARNING), monkeypatch.context() as patch:
        hinder(scene, patch)
        for number in (1, 2):
            scene.save()
            assert scene.files("part") == []
            found = scene.last()
            expected = scene.bench.values()["total"]
            assert (found[0], scene.total(found[1])) == (number, expected)
    assert len(caplog.records) == 1
    note = scene.writer.status.note
    assert note is not None
    assert note.startswith("Checkpoints go through the driver: ")
    assert re.search(why, note)
    scene.save()
    refused = hinder is _other_host
    assert (scene.writer.status.note == note, bool(scene.files("part"))) == (refused, not refused)
