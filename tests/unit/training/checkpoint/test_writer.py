"""Checkpoints of runs without Spark: one moment, in order, and never in the way of training."""

from __future__ import annotations

import copy
import errno
import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import Counting
from tests.support.threads import LIMIT, Aside, wait_for_end
from tests.unit.telemetry.samples import milestone
from tests.unit.worker.support import Served, counting_training, finish, join, numbers, push, until
from tos_notebook import combiners
from tos_notebook.blocks.partitioners import RandomPartitioner
from tos_notebook.cluster.files import digest_of
from tos_notebook.combiners import Downpour, FedAdam, FedBuff, FedYogi, PushInfo, StatefulCombiner
from tos_notebook.combiners.registry import MADE
from tos_notebook.common.content import content_of
from tos_notebook.coordination import snapshots
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.snapshots import Progress
from tos_notebook.coordination.timeouts import Timeouts
from tos_notebook.data.arrays import ArraySource
from tos_notebook.errors import CheckpointError, ConfigError, DataError, WaitTimeout
from tos_notebook.events import (
    CheckpointFailed,
    CheckpointWritten,
    EpochFinished,
    Event,
    MilestoneCommitted,
    ParametersRestored,
    RunStarted,
    WorkerJoined,
)
from tos_notebook.persist.described import describe, rebuild
from tos_notebook.persist.sealed import decode, encode
from tos_notebook.steering.machine import Command
from tos_notebook.steering.status import CheckpointStatus
from tos_notebook.steering.sync import BSP
from tos_notebook.steering.trigger import Trigger, as_trigger
from tos_notebook.strategies import STRATEGIES, AllReduce, ParameterServer
from tos_notebook.strategies.base import TrainerSetup
from tos_notebook.strategies.ps.push import Copied
from tos_notebook.strategies.ps.settings import ServerSettings
from tos_notebook.telemetry.bus import EventBus
from tos_notebook.telemetry.tally import Tally
from tos_notebook.training.checkpoint.contents import (
    Origin,
    from_sealed,
    require_known,
    to_parts,
)
from tos_notebook.training.checkpoint.data import check_same, read_data, write_data
from tos_notebook.training.checkpoint.event_log import Record, columns, events
from tos_notebook.training.checkpoint.folder import FIRST, Claim, Folder, checkpoint, program
from tos_notebook.training.checkpoint.reading import last
from tos_notebook.training.checkpoint.writer import CheckpointWriter, Subject
from tos_notebook.training.factory import new_run_id
from tos_notebook.training.found import _restorable
from tos_notebook.training.resume import _origin
from tos_notebook.training.summaries import summaries
from tos_notebook.training.swaps import Swap


class Disk:
    """A directory of files as `cluster.storage.Storage` has them, which may refuse."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = str(folder)
        self.refuses = ""
        self.before_write: Callable[[], object] = lambda: None
        self.written: list[str] = []

    def write(self, name: str, data: Path) -> str:
        self.before_write()
        if self.refuses and name.startswith(self.refuses):
            raise CheckpointError("the disk is full")
        self.written.append(name)
        (self.folder / name).write_bytes(data.read_bytes())
        return name

    def write_new(self, name: str, data: bytes) -> bool:
        self.before_write()
        try:
            with (self.folder / name).open("xb") as file:
                file.write(data)
        except FileExistsError:
            return False
        return True

    def read(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise CheckpointError(str(error)) from None

    def delete(self, name: str) -> bool:
        (self.folder / name).unlink()
        return True

    def head(self, name: str, nbytes: int) -> bytes:
        return self.read(name)[:nbytes]

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.folder.iterdir())

    def list(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


def origin(**changes: Any) -> Origin:
    fields: dict[str, Any] = {
        "run_id": "run-1", "epochs": 3, "repartition_every": None, "seed": 0, "shuffle": True,
        "batch_size": 1, "optimizer_state": "keep", "non_finite": "raise",
        "strategy": describe(ParameterServer(), STRATEGIES), "partitions": 2,
        "columns": (("float64", ()),), "rows": 100, "stored": True,
        "program": "0" * 32, "checkpoint_every": "2 milestones", "max_checkpoints": 3,
        "created": 0.0,
    }  # fmt: skip
    return Origin.from_json(fields | changes)


class Scene:
    """A training with a checkpoint writer, whose events arrive at once."""

    def __init__(
        self,
        folder: Path,
        max_checkpoints: int = 2,
        claim: Claim = FIRST,
        epochs: int = 1,
        resumed: int | None = None,
        progress: Progress | None = None,
        hold: float = LIMIT,
        **of: Any,
    ) -> None:
        self.disk, self.events, self.now = Disk(folder), list[Event](), 0.0
        self.checkpointer = CheckpointWriter(
            Folder(self.disk),
            origin(**of),
            as_trigger("checkpoint_every", "2 milestones"),
            max_checkpoints,
            claim if resumed is None else Claim(claim.name, resumed),
            resumed=resumed,
            clock=lambda: self.now,
        )
        reached = 0 if progress is None else progress.reached.epoch
        self.training, _ = counting_training(
            1,
            epochs,
            rows=50,
            first=reached,
            publish=self._publish,
            timeouts=Timeouts(hold=hold),
        )
        if progress is not None:
            self.training.restore(progress)
        self.member, _ = self.training.join(join(), False)
        self.subject = Subject(
            self.training.snapshot, lambda: None, Tally().totals, self.events.append,
            lambda timeout: None, lambda: self.training.proven, lambda: self.training.spoiled,
        )  # fmt: skip

    def _publish(self, event: Event) -> None:
        self.events.append(event)
        self.checkpointer(event)

    def push(self, sequence: int, value: float = 1.0) -> None:
        update = self.training.store.layout.pack([np.array(value), np.array(1)])
        self.training.push(self.member, push(sequence, base_version=sequence), update)

    def seen(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def files(self, start: str) -> list[str]:
        return [name for name in self.disk.list() if name.startswith(start)]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


COPIES = 20
"""That are taken before any worker trains its last batches."""


class Midway(Counting):
    """Trains half of what there is, and the rest once there are enough copies."""

    def __init__(self, enough: threading.Event) -> None:
        super().__init__()
        self.trained, self.enough = 0, enough

    def step(self, parameters: dict[str, Any], batch: tuple[Any, ...]) -> dict[str, float]:
        self.trained += 1
        if self.trained == 150:
            assert self.enough.wait(LIMIT)
        return super().step(parameters, batch)


def test_what_the_ledger_has_is_what_the_center_has_at_any_moment() -> None:
    """Four workers train while copies are taken as fast as can be; not one is torn."""
    training, _ = counting_training(partitions=4, epochs=3, sync_interval=3, rows=400)
    enough = threading.Event()
    served, programs = Served(training), [Midway(enough) for _ in range(4)]
    workers = [
        Aside(lambda p=p: served.work(programs[p], p, p, batch_size=1, columns=1))  # type: ignore[misc]
        for p in range(4)
    ]
    layout, checked = training.store.layout, 0
    while any(worker.goes_on for worker in workers):
        snapshot = training.snapshot()
        assert snapshot is not None
        progress = snapshot.progress
        done = 100 * 4 * progress.reached.epoch
        done += sum(steps for _, _, steps, *_ in progress.ledger["records"])
        rows = layout.tensors(progress.copied.center)["rows"].item()
        pushes = progress.copied.version
        assert rows == done
        assert pushes >= done / 3
        checked += 1
        if checked == COPIES:
            enough.set()
    for worker in workers:
        worker.result()
    served.close()
    assert checked >= COPIES


def test_a_training_goes_on_from_a_copy_with_every_batch_once() -> None:
    """Also where the partitions are in different epochs, and a round of the combiner is open."""
    rule = FedBuff(k=4, lr=4.0)
    training, _ = counting_training(partitions=2, epochs=2, rows=40, combiner=rule)
    served = Served(training)
    stopped = Counting()

    def stop(number: int) -> None:
        if number == 7:
            raise RuntimeError("killed")

    stopped.on_batch = stop
    served.work(Counting(), 0, 0, columns=1)
    with pytest.raises(RuntimeError, match="killed"):
        served.work(stopped, 1, 1, columns=1)
    snapshot = training.snapshot()
    served.close()
    assert snapshot is not None
    value, arrays = to_parts(origin(), snapshot, None, ())
    saved = from_sealed(decode(encode({}, value, arrays), "file"), "file")
    assert (saved.progress.reached.epoch, saved.progress.reached.between) == (0, False)
    combiner = saved.settings_with().strategy.combiner
    again, _ = counting_training(partitions=2, epochs=2, rows=40, combiner=combiner)
    again.restore(saved.progress)
    served = Served(again)
    served.work(Counting(), 1, 0, columns=1)
    served.close()
    layout = again.store.layout
    assert layout.tensors(again.store.center)["rows"].item() == 80
    assert layout.tensors(again.store.center)["total"].item() == 2 * numbers(40).sum()
    assert again.store.version == 80


def streamed(scene: Scene, epoch: int, sequence: int) -> None:
    """Push a batch of a stream's rows."""
    version = scene.training.store.version
    update = scene.training.store.layout.pack([np.array(1.0), np.array(1)])
    digest = bytes([epoch, sequence] * 8)
    message = push(sequence, epoch=epoch, base_version=version, digest=digest)
    scene.training.push(scene.member, message, update)


def test_a_resumed_run_whose_function_returns_fewer_rows_leaves_the_checkpoint_before(
    tmp_path: Path,
) -> None:
    """Else what it has trained would be taken for rows of the right data, which then never fit."""
    again, number = resumed_stream(tmp_path)
    assert not again.training.proven
    streamed(again, 1, 0)
    again.checkpointer.write(again.subject)
    assert again.checkpointer.folder.numbers() == [number, number + 1]
    again.training.finish(again.member, finish(1, 1, 1))
    assert isinstance(again.training.error, DataError)
    again.checkpointer.begin(again.subject)
    again.checkpointer.finish()
    assert again.checkpointer.folder.numbers() == [number]


def resumed_stream(folder: Path) -> tuple[Scene, int]:
    """Return a run that continues from between two epochs of a stream, and from which number."""
    first = Scene(folder, epochs=3)
    for sequence in range(2):
        streamed(first, 0, sequence)
    first.training.finish(first.member, finish(0, 2, 2))
    first.checkpointer.write(first.subject)
    (number,) = first.checkpointer.folder.numbers()
    saved = from_sealed(first.checkpointer.folder.read(checkpoint(number)), "file")
    return Scene(
        folder, max_checkpoints=1, epochs=3, resumed=number, progress=saved.progress
    ), number


def test_a_checkpoint_that_could_not_be_written_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again, number = resumed_stream(tmp_path)
    streamed(again, 1, 0)
    again.checkpointer.write(again.subject)
    streamed(again, 1, 1)

    def full(*_: Any) -> None:
        raise CheckpointError("full")

    monkeypatch.setattr(again.checkpointer.folder, "write", full)
    again.checkpointer.begin(again.subject)
    again.checkpointer.finish()
    assert again.checkpointer.status.error == "full"
    assert again.checkpointer.folder.numbers() == [number, number + 1]


def test_who_no_longer_has_the_folder_deletes_nothing_in_it(tmp_path: Path) -> None:
    again, number = resumed_stream(tmp_path)
    streamed(again, 1, 0)
    again.checkpointer.write(again.subject)
    again.training.finish(again.member, finish(1, 1, 1))
    again.checkpointer.folder.claim()
    again.checkpointer.begin(again.subject)
    again.checkpointer.finish()
    assert again.checkpointer.folder.numbers() == [number, number + 1]


def test_the_end_of_an_epoch_may_say_when(tmp_path: Path) -> None:
    """Each second one is written while it trains, on the writer's own thread."""
    disk, written = Disk(tmp_path), threading.Semaphore(0)
    every = as_trigger("checkpoint_every", "2 epochs")
    writer = CheckpointWriter(Folder(disk), origin(), every, 9)
    scene, looks = Scene(tmp_path), list[int]()
    epoch = 0

    def snapshot(*given: Any) -> None:
        looks.append(epoch)
        written.release()

    writer.begin(replace(scene.subject, snapshot=snapshot))
    for epoch in range(1, 5):
        writer(EpochFinished(0.0, epoch - 1, 10))
        if epoch % 2 == 0:
            assert written.acquire(timeout=LIMIT)
    writer.finish(LIMIT)
    assert looks == [2, 4, 4]


class BreaksItsPromise(Downpour):
    """Raises in the second stripe, once the first is merged."""

    def merge(self, center: Any, update: Any, push: PushInfo) -> None:
        if center.dtype == np.int64:
            raise MemoryError("full")
        super().merge(center, update, push)


def test_a_push_that_was_merged_in_part_is_in_no_checkpoint(scene: Scene) -> None:
    """Neither in the next one nor in the run's last; the one before stays the newest."""
    scene.push(0)
    scene.checkpointer.write(scene.subject)
    before = scene.files("checkpoint")
    scene.training.store.swap(BreaksItsPromise())
    scene.push(1)
    assert scene.training.machine.state == "failed"
    assert "tos.resume continues from the last one before" in str(scene.training.error)
    with pytest.raises(CheckpointError, match="merged a push in part"):
        scene.checkpointer.write(scene.subject)
    scene.checkpointer.begin(scene.subject)
    scene.checkpointer.finish()
    (failed,) = scene.seen(CheckpointFailed)
    assert "merged a push in part" in failed.message
    assert scene.files("checkpoint") == before


def _resumed(training: Coordinator) -> Coordinator:
    """Return a run that goes on from a copy, as if it had been in a file."""
    snapshot = training.snapshot()
    assert snapshot is not None
    value, arrays = to_parts(origin(), snapshot, None, ())
    saved = from_sealed(decode(encode({}, value, arrays), "file"), "file")
    again, _ = counting_training(combiner=saved.settings_with().strategy.combiner)
    again.restore(saved.progress)
    return again


@pytest.mark.parametrize("before", [True, False], ids=["before the copy", "within the swap"])
def test_a_copy_has_the_settings_of_the_combiner_whose_state_it_has(
    scene: Scene, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever moment of a swap a checkpoint meets."""
    training, resumed = scene.training, list[Coordinator]()
    store, old, new = training.store, FedAdam(), FedYogi()
    training.change_settings(Command.SWAP_COMBINER, "", combiner=old)
    scene.push(0)
    copy, swap = store.snapshot, store.swap

    def change() -> None:
        training.change_settings(Command.SWAP_COMBINER, "", combiner=new)

    def copy_after_a_swap(entered: Callable[[], object]) -> Copied:
        change()
        return copy(entered)

    def swap_before_a_copy(*args: Any) -> None:
        swap(*args)
        resumed.append(Aside(lambda: _resumed(training)).result())

    if before:
        monkeypatch.setattr(store, "snapshot", copy_after_a_swap)
        resumed.append(_resumed(training))
    else:
        monkeypatch.setattr(store, "swap", swap_before_a_copy)
        change()
    (again,) = resumed
    assert type(again.settings.strategy.combiner) is type(again.store.combiner) is FedYogi


def test_a_push_under_way_that_does_not_end_costs_a_checkpoint_and_nothing_else(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, hold=0.01)
    scene.training.state.gate.enter()
    with pytest.raises(WaitTimeout, match="still being merged after"):
        scene.training.snapshot()
    with scene.training.state.lock:
        scene.training.state.gate.leave(True)
    scene.push(0)
    assert scene.training.store.version == 1


def test_a_repartition_that_is_asked_for_is_of_the_moment_of_the_copy(scene: Scene) -> None:
    """One asked for and done while the copy was made would be lost, or done twice."""
    before, after = (3, RandomPartitioner(3)), (4, RandomPartitioner(4))
    now, copy = [before], scene.training.store.snapshot

    def copy_late(entered: Callable[[], object]) -> Copied:
        now[0] = after
        return copy(entered)

    scene.training.store.snapshot = copy_late  # type: ignore[method-assign]
    scene.subject = replace(scene.subject, asked=lambda: now[0])
    scene.push(0)
    scene.checkpointer.write(scene.subject)
    assert last(scene.checkpointer.folder)[1].asked is not None
    assert [last(scene.checkpointer.folder)[1].asked[0], now[0][0]] == [3, 4]  # type: ignore[index]


def test_an_old_checkpoint_that_cannot_be_deleted_does_not_fail_the_new_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, max_checkpoints=1)

    def refuse(name: str) -> bool:
        raise CheckpointError("permission denied")

    monkeypatch.setattr(scene.disk, "delete", refuse)
    for sequence in (0, 1):
        scene.push(sequence)
        scene.checkpointer.save(scene.subject)
        scene.now += 61.0
    scene.push(2)
    scene.checkpointer.save(scene.subject)
    assert [event.number for event in scene.seen(CheckpointWritten)] == [1, 2, 3]
    assert scene.seen(CheckpointFailed) == []
    assert scene.checkpointer.status.error is None
    assert "Old checkpoints of run-1 stay in" in caplog.text


def test_a_run_that_ends_before_its_streams_are_known_says_that_it_is_not_saved(
    scene: Scene,
) -> None:
    scene.push(0)
    scene.training.state.rows.unconfirmed = {0}
    scene.checkpointer.begin(scene.subject)
    scene.checkpointer.finish()
    (failed,) = scene.seen(CheckpointFailed)
    assert "No checkpoint has the training since then" in failed.message
    assert scene.checkpointer.status.error == failed.message


def test_pushes_wait_while_a_copy_waits_for_those_under_way(scene: Scene) -> None:
    scene.training.state.gate.enter()
    copying = Aside(scene.training.snapshot)
    until(lambda: scene.training.state.gate.held)
    pushing = Aside(lambda: scene.push(0))
    with scene.training.state.changed:
        assert scene.training.store.version == 0
        scene.training.state.gate.leave(True)
    snapshot = copying.result()
    pushing.result()
    assert snapshot.progress.copied.version == 0
    assert scene.training.store.version == 1


def test_a_partition_with_other_rows_than_before_is_refused_even_after_a_resume(
    scene: Scene,
) -> None:
    scene.push(0)
    snapshot = scene.training.snapshot()
    assert snapshot is not None
    again, _ = counting_training(partitions=1, rows=50)
    progress = snapshot.progress
    again.restore(
        snapshots.Progress(progress.ledger, progress.copied, {}, {0: 50}, progress.reached)
    )
    member, joined = again.join(join(), False)
    assert (joined.steps, joined.sequence) == (1, 1)
    again.finish(member, finish(samples=49, steps=1))
    assert isinstance(again.error, DataError)
    assert "expected 50 rows, got 49 rows" in str(again.error)


def test_a_checkpoint_that_is_being_written_can_be_seen(scene: Scene) -> None:
    seen: list[object] = []
    scene.disk.before_write = lambda: seen.append(scene.checkpointer.saving)
    scene.now = 7.0
    scene.push(0)
    scene.checkpointer.begin(scene.subject)
    scene.checkpointer.finish()
    assert set(seen) == {(scene.disk.uri, 7.0)}
    assert scene.checkpointer.saving is None


def test_a_summary_counts_the_milestones_of_steps_that_all_have_made_together() -> None:
    record = Record()
    for number in range(6):
        # Of three workers.
        record(milestone(version=1 + number // 3))
    taken = record.take(1)
    assert record.milestones == 3
    record.give_back(taken)
    assert record.milestones == 0
    record.take(2)
    assert record.milestones == 6


def test_milestones_that_do_not_count_are_never_told_after_the_return_to_a_copy() -> None:
    """Else a resumed run would count them, since nothing takes them away any more."""
    record = Record()
    for version in (1, 2, 3):
        record(milestone(version=version))
    returned = ParametersRestored(9.0, 1, 2, 8, 4, "A shard was lost.")
    record(returned)
    record(milestone(version=2))
    taken = record.take(2)
    assert [getattr(e, "version", 0) for e in taken] == [1, 2, 3, 1, 2]
    assert taken[3] == returned


def test_checkpoints_come_by_milestones_and_one_at_the_end(scene: Scene) -> None:
    scene.checkpointer.begin(scene.subject)
    for sequence in range(0, 10, 2):
        scene.now += 61.0
        scene.push(sequence)
        scene.push(sequence + 1)
        until(lambda n=sequence: len(scene.seen(CheckpointWritten)) > n // 2)  # type: ignore[misc]
    scene.push(10)
    scene.now += 61.0
    scene.checkpointer.finish()
    assert [e.version for e in scene.seen(CheckpointWritten)] == [2, 4, 6, 8, 10, 11]
    assert scene.files("checkpoint") == ["checkpoint-00000005.tos", "checkpoint-00000006.tos"]
    last = scene.checkpointer.folder.last()
    assert (last.number, last.sealed.summary["milestones"]) == (6, 11)
    told: list[Event] = []
    for name in from_sealed(last.sealed, "last").history:
        told += events(scene.checkpointer.folder.read(name), name)
    assert [e.version for e in told if isinstance(e, MilestoneCommitted)] == list(range(1, 12))
    assert not [t for t in threading.enumerate() if t.name.startswith("tos-checkpoint")]


def test_a_run_that_another_process_has_resumed_is_saved_by_that_one_alone(scene: Scene) -> None:
    """Two kernels that train one run: the later one's files are not touched by the other."""
    scene.push(0)
    assert scene.checkpointer.write(scene.subject) is not None
    folder = Folder(scene.disk)
    first, second = folder.claim(), folder.claim()
    # The two before may each be writing one at this moment.
    assert (first.number, second.number) == (2, 3)
    before = scene.disk.list()
    scene.push(1)
    with pytest.raises(
        CheckpointError, match=r"Process \d+ on \S+, at .*, resumed the run.* stop it"
    ):
        scene.checkpointer.write(scene.subject)
    with pytest.raises(CheckpointError, match="saves nothing"):
        folder.require(first.name)
    assert scene.disk.list() == before
    later = CheckpointWriter(folder, origin(), scene.checkpointer.every, 2, second)
    written = later.write(scene.subject)
    assert written is not None
    assert (written.number, folder.last().number) == (4, 4)
    # Who gives its claim back, as the run could not go on there, leaves the one before in charge.
    third = folder.claim()
    scene.disk.delete(third.name)
    folder.require(second.name)


def test_of_runs_that_begin_in_one_folder_at_once_one_begins(tmp_path: Path) -> None:
    disk, together = Disk(tmp_path), threading.Barrier(2)
    # Both have looked, and seen an empty folder.
    disk.before_write = lambda: together.wait(LIMIT)

    def begin() -> str:
        try:
            Folder(disk).begin()
        except ConfigError as error:
            return str(error)
        return ""

    found = [Aside(begin), Aside(begin)]
    first, second = sorted(aside.result() for aside in found)
    assert first == ""
    assert "holds another run's files: start again" in second


class Archived:
    """As much of a program as is needed to restore a checkpoint."""

    def __init__(self, layout: Any) -> None:
        self.layout = layout

    def read(self) -> Any:
        return self.layout.allocate()


def of_another_rule(folder: Folder, number: int) -> None:
    """Write a checkpoint again whose state is not that of the rule in its settings."""
    name = f"checkpoint-{number:08d}.tos"
    sealed = folder.read(name)
    rule = describe(combiners.get("fedadam"), MADE)
    sealed.value["settings"]["strategy"]["combiner"] = rule
    folder.write(name, sealed.summary, sealed.value, sealed.arrays)


def test_a_checkpoint_that_does_not_restore_is_passed_over_with_a_warning(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    for sequence in range(3):
        scene.push(sequence)
        scene.checkpointer.write(scene.subject)
    folder, program = scene.checkpointer.folder, Archived(scene.training.store.layout)
    of_another_rule(folder, 3)
    number, saved, settings, _ = _restorable(folder, lambda _: program, None)  # type: ignore[arg-type, return-value]
    assert (number, saved.progress.copied.version) == (2, 2)
    assert settings.strategy.combiner.name == saved.settings.shown["combiner"]
    assert (
        "checkpoint-00000003.tos cannot be restored, so checkpoint-00000002.tos is: " in caplog.text
    )
    for number in (1, 2):
        of_another_rule(folder, number)
    with pytest.raises(CheckpointError, match="Expected the state of combiner fedadam"):
        _restorable(folder, lambda _: program, None)  # type: ignore[arg-type, return-value]


def test_a_checkpoint_that_says_nothing_of_a_run_is_passed_over(scene: Scene) -> None:
    scene.push(0)
    scene.checkpointer.write(scene.subject)
    scene.checkpointer.folder.write("checkpoint-00000002.tos", {}, {"origin": {}})
    number, saved = last(scene.checkpointer.folder)
    assert (number, saved.progress.copied.version) == (1, 1)


def test_a_resumed_run_keeps_its_timeouts_unless_it_gets_another(tmp_path: Path) -> None:
    scene = Scene(tmp_path, stall_timeout=300.0, worker_timeout=None)
    scene.push(0)
    scene.checkpointer.write(scene.subject)
    _, saved = last(scene.checkpointer.folder)
    same = _origin(saved, {"stall_timeout": None}).options
    assert (same.stall_timeout, same.worker_timeout) == (300.0, None)
    other = _origin(saved, {"stall_timeout": 5, "worker_timeout": 900}).options
    assert (other.stall_timeout, other.worker_timeout) == (5.0, 900.0)


@pytest.mark.parametrize("value", ["x", None, 1e6, 0])
def test_a_strategy_that_cannot_be_made_again_is_a_damaged_checkpoint(value: Any) -> None:
    training, _ = counting_training()
    training.begin_span(ArraySource((numbers(4),), 1), 0, 0)
    snapshot = training.snapshot()
    assert snapshot is not None
    made, arrays = to_parts(origin(), snapshot, None, ())
    made["origin"]["strategy"]["parameters"]["stripe_bytes"] = value
    with pytest.raises(CheckpointError, match=r"sealed, but no checkpoint: Cannot make .*stripe"):
        from_sealed(decode(encode({}, made, arrays), "file"), "file")


def test_saved_runs_are_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    """Whatever their ids say: another time zone's, or random digits of one second."""
    disks = []
    for created, run_id in ((2.0, "run-a"), (1.0, "run-c"), (3.0, "run-b")):
        folder = tmp_path / run_id
        folder.mkdir()
        scene = Scene(folder, created=created, run_id=run_id)
        scene.push(0)
        assert scene.checkpointer.write(scene.subject) is not None
        disks.append(scene.disk)
    assert [found.run for found in summaries(disks)] == ["run-c", "run-a", "run-b"]  # type: ignore[arg-type]


def test_ids_of_runs_are_unique_and_in_universal_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        time, "gmtime", lambda: time.struct_time((2026, 11, 23, 18, 15, 0, 0, 0, 0))
    )
    ids = {new_run_id() for _ in range(50)}
    assert len(ids) == 50
    assert all(re.fullmatch(r"run-20261123-181500-[0-9a-f]{6}", one) for one in ids)


def test_resumes_at_the_same_moment_have_numbers_of_their_own(scene: Scene) -> None:
    scene.push(0)
    assert scene.checkpointer.write(scene.subject) is not None
    together = threading.Barrier(2)
    calls = iter(range(99))
    # Both have seen the same owner, and want the same number.
    scene.disk.before_write = lambda: together.wait(LIMIT) if next(calls) < 2 else None
    folder = Folder(scene.disk)
    claims = sorted(aside.result() for aside in [Aside(folder.claim), Aside(folder.claim)])
    scene.disk.before_write = lambda: None
    assert [claim.name for claim in claims] == ["owner-00000001.tos", "owner-00000002.tos"]
    assert claims[0].number < claims[1].number
    folder.require(claims[1].name)
    with pytest.raises(CheckpointError, match="saves nothing"):
        folder.require(claims[0].name)


def test_an_owner_whose_file_is_not_whole_yet_is_an_owner(scene: Scene) -> None:
    scene.disk.write_new("owner-00000001.tos", b"")
    scene.push(0)
    with pytest.raises(CheckpointError, match="Another process resumed the run"):
        scene.checkpointer.write(scene.subject)


def test_nothing_younger_than_a_minute_is_deleted(scene: Scene) -> None:
    for sequence in range(5):
        scene.push(sequence)
        scene.checkpointer.write(scene.subject)
        scene.now += 20.0
    # At 80 s: those of 0 and 20 s are old enough, and two are kept in any case.
    assert scene.files("checkpoint") == [f"checkpoint-{n:08d}.tos" for n in (3, 4, 5)]


def test_those_of_before_a_resume_are_as_old_as_the_resume(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"checkpoint-{number:08d}.tos").touch()
    scene = Scene(tmp_path, max_checkpoints=1, claim=Claim(FIRST.name, 2))
    for sequence, now, left in ((0, 59.0, 3), (1, 60.0, 2)):
        scene.now = now
        scene.push(sequence)
        scene.checkpointer.write(scene.subject)
        assert len(scene.files("checkpoint")) == left


def test_a_full_disk_costs_one_checkpoint_and_no_event(scene: Scene) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    scene.push(0)
    scene.disk.before_write = full
    scene.checkpointer.save(scene.subject)
    assert "No space left on device" in str(scene.seen(CheckpointFailed)[0])
    scene.push(1)
    scene.disk.before_write = lambda: None
    scene.checkpointer.save(scene.subject)
    last = from_sealed(scene.checkpointer.folder.last().sealed, "last")
    told = [e for name in last.history for e in events(scene.checkpointer.folder.read(name), name)]
    assert [e.version for e in told if isinstance(e, MilestoneCommitted)] == [1, 2]


def test_nothing_new_is_not_written_again(scene: Scene) -> None:
    scene.push(0)
    assert scene.checkpointer.write(scene.subject) is not None
    assert scene.checkpointer.write(scene.subject) is None
    assert scene.files("checkpoint") == ["checkpoint-00000001.tos"]


@pytest.mark.parametrize("part", ["history", "checkpoint"])
def test_a_disk_that_refuses_costs_one_checkpoint_and_no_event(scene: Scene, part: str) -> None:
    scene.push(0)
    scene.disk.refuses = part
    scene.checkpointer.save(scene.subject)
    assert [e.message for e in scene.seen(CheckpointFailed)] == ["the disk is full"]
    scene.disk.refuses = ""
    scene.push(1)
    assert scene.checkpointer.status == CheckpointStatus(None, None, "the disk is full")
    scene.checkpointer.save(scene.subject)
    assert (scene.checkpointer.status.number, scene.checkpointer.status.error) == (2, None)
    assert len(set(scene.disk.written)) == len(scene.disk.written), "a file was written twice"
    last = from_sealed(scene.checkpointer.folder.last().sealed, "last")
    told: list[Event] = []
    for name in last.history:
        told += events(scene.checkpointer.folder.read(name), name)
    assert [e.version for e in told if isinstance(e, MilestoneCommitted)] == [1, 2]


def test_a_damaged_checkpoint_is_passed_over_and_several_are_named(scene: Scene) -> None:
    for sequence in range(2):
        scene.push(sequence)
        scene.checkpointer.write(scene.subject)
    path = scene.disk.folder / "checkpoint-00000002.tos"
    path.write_bytes(path.read_bytes()[:-1])
    told: list[str] = []
    assert scene.checkpointer.folder.last(tell=told.append).number == 1
    assert [text for text in told if "00000002" in text and "cut off" in text] == told != []
    (scene.disk.folder / "checkpoint-00000001.tos").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"no checkpoint to .*00000002.*00000001.*cut off"):
        scene.checkpointer.folder.last()


def test_events_come_back_in_their_order_with_metrics_of_their_own() -> None:
    def milestone(version: int, metrics: dict[str, float]) -> MilestoneCommitted:
        return MilestoneCommitted(
            float(version), 0, 1, "e", f"h{version}", 0, version, 2, 2, 3, 0.5,
            None if version == 2 else 1, version,
            0.1, 0.2, 0.3, 4, 5, metrics, 2,
        )  # fmt: skip

    given: list[Event] = [
        RunStarted(0.0, "run-1", 3, 2, None),
        milestone(1, {"acc": 0.5}),
        WorkerJoined(1.5, 0, 1, "e", "h", 2, 3),
        milestone(2, {}),
    ]
    record = Record()
    for event in [*given, milestone(3, {"f1": 1.0})]:
        record(event)
    taken = record.take(2)
    value, arrays = columns(taken)
    sealed = decode(encode({}, json.loads(json.dumps(value)), arrays), "file")
    assert events(sealed, "file") == given == taken
    record.give_back(taken)
    assert len(record.take(9)) == 5
    with pytest.raises(CheckpointError, match="holds no events"):
        events(decode(encode({}, {"others": []}, arrays), "file"), "file")


@pytest.mark.parametrize(
    ("value", "every"),
    [
        ("30s", Trigger(30.0)), ("1.5min", Trigger(90.0)), (" 2 h ", Trigger(7200.0)),
        ("500 milestones", Trigger(milestones=500)), ("1 milestone", Trigger(milestones=1)),
        (20, Trigger(milestones=20)), (Trigger(3.0), Trigger(3.0)),
        ("1 epoch", Trigger(epochs=1)), ("2epochs", Trigger(epochs=2)),
    ],
)  # fmt: skip
def test_how_often(value: Any, every: Trigger) -> None:
    assert as_trigger("checkpoint_every", value) == every
    assert as_trigger("checkpoint_every", str(every)) == every


@pytest.mark.parametrize("value", [0, -1, True, 2.5, "", "30", "0s", "s", "1.5 milestones", None])
def test_what_says_not_how_often_is_told_what_does(value: Any) -> None:
    with pytest.raises(ConfigError, match=r'expected a time such as "30s".* or "2 epochs"; got'):
        as_trigger("checkpoint_every", value)


class Opaque(StatefulCombiner):
    def reset(self, like: Any) -> None:
        self.lock: Callable[[], object] = lambda: None

    def merge(self, center: Any, update: Any, push: Any) -> None: ...


def test_what_cannot_be_saved_is_refused_at_once() -> None:
    with pytest.raises(CheckpointError, match=r"Combiner Opaque\.lock cannot be saved.*dump"):
        ServerSettings(Opaque()).require_saveable()

    class Own(RandomPartitioner): ...

    with pytest.raises(ConfigError, match="one of RandomPartitioner, Shards, Dirichlet"):
        require_known(Own(2))


def test_data_are_compared_with_what_the_run_has_begun_with(tmp_path: Path) -> None:
    folder = Folder(Disk(tmp_path))
    write_data(folder, (numbers(100),))
    begun = origin(content=content_of((numbers(100),)).digest)
    source = read_data(folder, begun)
    check_same(source, begun)
    np.testing.assert_array_equal(source.rows(1)[0], numbers(100)[50:])
    for wrong, name in (
        (ArraySource((numbers(100),), 3), "partitions 2, got 3"),
        (ArraySource((numbers(99),), 2), "rows 100, got 99"),
        (ArraySource((numbers(100).astype("f4"),), 2), "columns"),
    ):
        with pytest.raises(DataError, match=f"expected {name}"):
            check_same(wrong, begun)
    with pytest.raises(DataError, match="are not stored with its checkpoints"):
        read_data(folder, origin(stored=False))
    (tmp_path / "data.tos").unlink()
    with pytest.raises(CheckpointError, match="Or give the same arrays"):
        read_data(folder, origin())


def test_the_end_waits_for_a_checkpoint_under_way_only_so_long(scene: Scene) -> None:
    free = threading.Event()
    subject = Subject(
        scene.training.snapshot, lambda: None, Tally().totals, scene.events.append,
        lambda timeout: free.wait(LIMIT),
    )  # fmt: skip
    scene.push(0)
    scene.checkpointer.begin(subject)
    scene.checkpointer.finish(timeout=0.01)
    (failed,) = scene.seen(CheckpointFailed)
    assert "The last checkpoint of run-1 was still being written" in str(failed)
    assert str(scene.checkpointer.status) == f"The run has no checkpoint yet: {failed.message}"
    free.set()
    wait_for_end("tos-checkpoint-run-1")
    # It came after all.
    assert scene.checkpointer.status.number == 1
    assert scene.checkpointer.status.error is None


def test_a_sink_that_stands_still_stops_no_checkpoint(scene: Scene) -> None:
    gate = threading.Event()
    with EventBus([scene.checkpointer], apart=[lambda event: gate.wait(LIMIT)]) as bus:
        scene.training.state.publish = bus.publish
        scene.subject = replace(scene.subject, publish=bus.publish, flush=bus.flush)
        scene.push(0)
        written = scene.checkpointer.write(scene.subject)
        gate.set()
    assert written is not None
    assert written.version == 1


@pytest.mark.parametrize("when", [None, "noon", [], 1e300, float("nan")])
def test_an_owner_of_another_kind_is_still_an_owner(scene: Scene, when: Any) -> None:
    (scene.disk.folder / "owner-00000001.tos").write_bytes(encode({"pid": 1, "when": when}))
    with pytest.raises(CheckpointError, match="Another process resumed the run"):
        scene.checkpointer.folder.require("owner-00000000.tos")


WRONG: list[Any] = [None, True, "x", [], {}, {"a": 1}]
"""No number, and nothing that stands for one."""


def changed(value: Any, path: Sequence[Any], other: Any) -> Any:
    """Return a copy of plain values in which one is another."""
    copied = copy.deepcopy(value)
    inner = copied
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = other
    return copied


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize("field", ["time", "partition", "epoch"])
def test_an_event_of_wrong_fields_is_no_event(scene: Scene, field: str, wrong: Any) -> None:
    scene.push(0)
    scene.checkpointer.write(scene.subject)
    (name,) = scene.files("history")
    sealed = scene.checkpointer.folder.read(name)
    assert sealed.value["others"][0][2][field] is not None
    value = changed(sealed.value, ["others", 0, 2, field], wrong)
    with pytest.raises(CheckpointError, match=f"holds no events: expected .*{field}"):
        events(decode(encode({}, value, sealed.arrays), name), name)


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize("field", ["epochs", "seed", "batch_size", "created"])
def test_an_origin_of_wrong_fields_is_no_checkpoint(scene: Scene, field: str, wrong: Any) -> None:
    scene.push(0)
    scene.checkpointer.write(scene.subject)
    (name,) = scene.files("checkpoint")
    sealed = scene.checkpointer.folder.read(name)
    value = changed(sealed.value, ["origin", field], wrong)
    with pytest.raises(CheckpointError, match=f"no checkpoint: .*{field}"):
        from_sealed(decode(encode({}, value, sealed.arrays), name), name)
    value = changed(sealed.value, ["reached", 0], wrong)
    with pytest.raises(CheckpointError, match=r"no checkpoint: expected RunPosition\.epoch"):
        from_sealed(decode(encode({}, value, sealed.arrays), name), name)


# -- another strategy ------------------------------------------------------------------------


def by_another_strategy(scene: Scene) -> None:
    """Let all-reduce of parameters take the run over."""
    training, strategy = scene.training, AllReduce(of="parameters")
    own = strategy.exact_settings()

    def make() -> Any:
        layout, (buffer, _) = training.parameters.layout, training.parameters.read()
        changed = training.settings.changed(strategy=own, sync=BSP)
        return strategy.trainer(TrainerSetup(layout, buffer, changed))

    training.swap_trainer(make, lambda: None, strategy=own, sync=BSP)


def test_checkpoints_name_the_strategy_and_the_program_that_were_in_force(
    scene: Scene, tmp_path: Path
) -> None:
    archive = tmp_path / "other.zip"
    archive.write_bytes(b"another program")
    writer, folder = scene.checkpointer, scene.checkpointer.folder
    scene.push(0)
    writer.keep_program(archive)
    writer.keep_program(archive)
    assert [name for name in folder.storage.list() if name == program(digest_of(archive))]
    writer.write(scene.subject)
    assert last(folder)[1].strategy == ParameterServer()
    writer.swapped(AllReduce(of="parameters"), archive)
    writer.write(scene.subject)
    assert last(folder)[1].strategy == ParameterServer()
    by_another_strategy(scene)
    writer.write(scene.subject)
    found = last(folder)[1]
    assert found.strategy == AllReduce(of="parameters")
    assert found.origin.program == digest_of(archive)
    assert (found.settings.sync, found.settings.shown["of"]) == ("bsp", "parameters")
    assert found.progress.copied.version == 1


def test_a_swap_that_is_still_to_be_made_is_saved(scene: Scene) -> None:
    method: Any = SimpleNamespace(strategy=AllReduce(every=2))
    changes = {"strategy": AllReduce().exact_settings(), "sync": BSP, "sync_interval": 2}
    scene.subject = replace(scene.subject, swap=lambda: Swap(method, changes, "allreduce"))
    scene.push(0)
    scene.checkpointer.write(scene.subject)
    kept = last(scene.checkpointer.folder)[1].swap
    assert kept is not None
    assert rebuild(kept.strategy, STRATEGIES) == AllReduce(every=2)
    assert AllReduce().settings_from_json(kept.settings) == AllReduce().exact_settings()
    assert (kept.sync, kept.sync_interval, kept.detail) == ("bsp", 2, "allreduce")
