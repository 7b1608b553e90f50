"""Pushes that are merged and answered without the interpreter: as exact, and as well steered."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.worker.support import Bench, Served, finish, join, nothing_left, of, push, until
from tos_notebook.chaos import Slow
from tos_notebook.codecs.pair import PLAIN
from tos_notebook.combiners import ADAG, EASGD, Combiner, Downpour, DynSGD
from tos_notebook.common import native
from tos_notebook.common.content import DIGEST_SIZE
from tos_notebook.coordination.ledger import Ledger
from tos_notebook.coordination.membership import Member
from tos_notebook.coordination.server import WorkerHandler
from tos_notebook.coordination.settings import Settings
from tos_notebook.data.arrays import ArraySource
from tos_notebook.errors import CheckpointError, CombinerError, RemoteProtocolError, TosError
from tos_notebook.events import Event, MilestoneCommitted
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.steering.machine import Command
from tos_notebook.steering.sync import ASP, SyncMode
from tos_notebook.strategies.base import TrainerSetup
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.hogwild.trainer import HogwildTrainer
from tos_notebook.strategies.ps.settings import ServerSettings
from tos_notebook.strategies.ps.trainer import ServerTrainer
from tos_notebook.transport import reactor
from tos_notebook.transport.poller import new_poller
from tos_notebook.transport.server import STEADY, RequestServer
from tos_notebook.transport.shared import Segment
from tos_notebook.transport.tcp import TcpChannel
from tos_notebook.wire.frames import HEADER_SIZE, decode_header, encode_head
from tos_notebook.wire.messages import Directive, Join, Poll, Push, Suspect
from tos_notebook.wire.packed import REPLY

LAYOUT = Layout(
    [
        ParameterSpec("W", (50,), "float32"),
        ParameterSpec("mean", (3,), "float32", trained=False),
        ParameterSpec("wide", (4,), "float64"),
    ]
)
ONES = LAYOUT.pack([np.full(spec.shape, 1, spec.dtype) for spec in LAYOUT.specs])
MANY = 5 * STEADY


@pytest.fixture(params=["compiled", "python"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run a test with what is compiled, and without; return which it is."""
    if request.param == "python":
        monkeypatch.setattr(native, "extension", None)
    elif not hasattr(native.extension, "Path"):
        pytest.skip("needs a C compiler when this package is installed, and Linux")
    return bool(request.param == "compiled")


class Run:
    """A served run of two partitions, and how many pushes took the long way."""

    def __init__(
        self,
        combiner: Combiner,
        sync: SyncMode = ASP,
        layout: Layout = LAYOUT,
        locking: bool = True,
    ) -> None:
        self.layout = layout
        self.events: list[Event] = []
        settings = Settings(ServerSettings(combiner, PLAIN), 1, sync)
        trainer: Any = ServerTrainer(Center(layout, layout.allocate(), combiner))
        if not locking:
            trainer = HogwildTrainer(TrainerSetup(layout, layout.allocate(), settings))
        self.training = Bench(
            "run",
            trainer,
            settings,
            publish=self.events.append,
            locate=lambda task: (f"executor-{task}", "?"),
            on_failure=lambda: None,
        )
        self.training.begin_span(ArraySource([np.zeros((200, 1))], 2), 0, 1)
        self.served = Served(self.training, "tcp")
        self.slow = 0

    @property
    def milestones(self) -> list[MilestoneCommitted]:
        with self.training.state.lock:
            return of(MilestoneCommitted, self.events)

    def committed(self, partition: int, epoch: int = 0) -> int:
        """Return how many batches of a partition are in the ledger."""
        with self.training.state.lock:
            return self.training.state.ledger.committed(epoch, partition).steps

    @property
    def version(self) -> int:
        """Return how many pushes have been merged."""
        version: int = self.training.trainer.parameters.version
        return version

    def worker(self, partition: int = 0, task: int | None = None, shared: bool = False) -> Worker:
        return Worker(self, partition, 10 + partition if task is None else task, shared)


class Worker:
    """Pushes, and adopts what it is told."""

    def __init__(self, run: Run, partition: int, task: int, shared: bool) -> None:
        self.connection = run.served.connect()
        self.buffer = run.layout.allocate()
        self.shared, self.nbytes = shared, run.layout.nbytes
        message: Join = join(partition, task)
        if shared:
            with Segment(self.nbytes) as segment:
                self.buffer = segment.buffer
                message = join(partition, task, segment=segment.name)
                joined, _ = self.connection.request(message)
            assert joined.shared
        else:
            joined, _ = self.connection.request(message)
        self.sequence = joined.sequence
        proceed, _ = self.connection.request(Poll(0), None, None if shared else self.buffer)
        self.version, self.settings = proceed.version, proceed.settings_version

    def push(self, update: Any = ONES, **fields: Any) -> Any:
        """Push what is added to all parameters; return the reply."""
        self.buffer[:] = update
        named = {"base_version": self.version, "settings_version": self.settings} | fields
        payload = None if self.shared else self.buffer
        message: Push = push(self.sequence, **named)
        reply, _ = self.connection.request(message, payload, payload)
        self.sequence += 1
        self.version, self.settings = reply.version, reply.settings_version
        return reply


@pytest.fixture
def begin(
    compiled: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[..., Run]]:
    made: list[Run] = []
    long = WorkerHandler.handle

    def handle(self: WorkerHandler, message: Any, payload: Any) -> Any:
        made[-1].slow += isinstance(message, Push)
        return long(self, message, payload)

    monkeypatch.setattr(WorkerHandler, "handle", handle)

    def begun(combiner: Combiner | None = None, *arguments: Any) -> Run:
        made.append(Run(combiner or Downpour(), *arguments))
        return made[-1]

    with nothing_left(tmp_path / "shared"):
        yield begun
        for run in made:
            run.served.close()


def numbered(number: int) -> Any:
    """Return an update of which no two are alike."""
    random: Any = np.random.default_rng(number)
    return LAYOUT.pack([random.normal(size=spec.shape).astype(spec.dtype) for spec in LAYOUT.specs])


# -- what is merged ------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True], ids=["sent", "shared"])
@pytest.mark.parametrize(
    "combiner",
    [Downpour(), DynSGD(), DynSGD(0.5), ADAG()],
    ids=["downpour", "dynsgd", "root", "adag"],
)
def test_each_is_merged_counted_and_reported_as_on_the_long_way(
    begin: Callable[..., Run],
    compiled: bool,
    monkeypatch: pytest.MonkeyPatch,
    combiner: Combiner,
    shared: bool,
) -> None:
    told = []
    for fast in (compiled, False):
        with monkeypatch.context() as only:
            if not fast:
                only.setattr(native, "extension", None)
            run = begin(combiner)
            workers = [run.worker(0, shared=shared), run.worker(1, shared=shared)]
            replies = []
            for number in range(MANY):
                worker = workers[number % 3 == 2]
                fields = {"steps": 1 + number % 2, "samples": 3, "loss": number / 7}
                fields |= {"digest": bytes([number]) * DIGEST_SIZE}
                reply = worker.push(numbered(number), **fields)
                replies.append((reply, worker.buffer.tobytes()))
            assert (run.slow < MANY - STEADY) == fast
            facts = [replace(e, time=0.0) for e in run.milestones]
            with run.training.state.lock:
                members = run.training.state.membership.active()
                counts: Any = [(m.clock, m.epoch, m.doing, m.pushed) for m in members]
                counts += [run.training.state.ledger.to_json(), run.training.state.committed]
            told.append((replies, facts, counts, run.training.store.center.tobytes()))
            assert run.version == MANY == len(facts)
    assert told[0] == told[1]


def test_milestones_are_reported_soon_though_nothing_else_happens(
    begin: Callable[..., Run],
) -> None:
    run = begin()
    worker = run.worker()
    for _ in range(MANY):
        worker.push()
    until(lambda: len(of(MilestoneCommitted, run.events)) == MANY)


def test_their_times_are_those_of_the_merge(begin: Callable[..., Run]) -> None:
    run = begin()
    worker = run.worker()
    times = []
    for _ in range(MANY):
        began = time.time()
        worker.push()
        times.append((began, time.time()))
    for (began, ended), event in zip(times, run.milestones, strict=True):
        assert began - 1e-3 <= event.time <= ended + 1e-3


def test_more_than_can_be_noted_at_once_are_counted_all_the_same(begin: Callable[..., Run]) -> None:
    run = begin()
    worker, many = run.worker(), 2500
    for _ in range(many):
        worker.push()
    assert run.committed(0) == many == len(run.milestones)
    assert float(run.training.store.center[:4].view(np.float32)[0]) == many


@pytest.mark.parametrize("combiner", [EASGD(), Downpour()])
def test_what_the_fast_path_cannot_do_takes_the_long_way(
    begin: Callable[..., Run], combiner: Combiner
) -> None:
    """A rule of another kind, or whole numbers as parameters."""
    layout = Layout([ParameterSpec("n", (4,), "int64")])
    run = begin(combiner, ASP, LAYOUT if isinstance(combiner, EASGD) else layout)
    worker = run.worker()
    for _ in range(MANY):
        worker.push(run.layout.allocate() * 0)
    assert run.slow == MANY == len(run.milestones)


# -- what is steered -----------------------------------------------------------------------


def steady(run: Run, *workers: Worker) -> None:
    """Push until all take the fast path, where there is one."""
    for _ in range(3 * STEADY):
        for worker in workers:
            assert worker.push().directive is Directive.GO


def test_a_pause_is_heard_at_the_next_push_by_every_worker(begin: Callable[..., Run]) -> None:
    run = begin()
    workers = run.worker(0), run.worker(1)
    steady(run, *workers)
    run.training.command(Command.PAUSE, "")
    assert [worker.push().directive for worker in workers] == [Directive.WAIT] * 2
    assert run.committed(0) == run.committed(1) == 3 * STEADY + 1


def test_settings_are_heard_at_the_next_push(begin: Callable[..., Run]) -> None:
    run = begin()
    worker = run.worker()
    steady(run, worker)
    run.training.change_settings(Command.SET, "", sync_interval=5)
    reply = worker.push()
    assert (reply.settings_version, reply.settings.sync_interval) == (1, 5)
    steady(run, worker)
    assert {event.sequence for event in run.milestones} == set(range(6 * STEADY + 1))


def test_another_combiner_merges_the_next_push(begin: Callable[..., Run]) -> None:
    run = begin()
    worker = run.worker()
    steady(run, worker)
    before = float(run.training.store.center[:4].view(np.float32)[0])
    run.training.store.swap(ADAG())
    worker.push(steps=4, samples=4)
    after = float(run.training.store.center[:4].view(np.float32)[0])
    assert after - before == 0.25


def test_a_sync_mode_that_bounds_workers_lets_none_past(begin: Callable[..., Run]) -> None:
    run = begin()
    ahead, other = run.worker(0), run.worker(1)
    steady(run, ahead, other)
    run.training.change_settings(Command.SET, "", sync=SyncMode(3 * STEADY))
    directives = [ahead.push().directive for _ in range(3 * STEADY + 1)]
    assert directives == [Directive.GO] * 3 * STEADY + [Directive.WAIT]


def test_each_push_may_meet_chaos_while_there_are_rules(begin: Callable[..., Run]) -> None:
    run = begin()
    worker = run.worker()
    steady(run, worker)
    run.training.change_settings(Command.CHAOS, "", chaos=(Slow(2.0),))
    before = run.slow
    replies = [worker.push() for _ in range(2 * STEADY)]
    assert run.slow - before == 2 * STEADY
    assert all(reply.settings.chaos for reply in replies)


STOPS: dict[str, Callable[[Bench, Any], object]] = {
    "a pause": lambda training, member: training.command(Command.PAUSE, ""),
    "a stop": lambda training, member: training.command(Command.STOP, ""),
    "the end": lambda training, member: setattr(training.state, "settled", True),
    "settings it has not heard of": lambda training, member: training.change_settings(
        Command.SET, "", sync_interval=3
    ),
    "a copy": lambda training, member: setattr(training.state.gate, "held", True),
    "a suspicion": lambda training, member: training.suspect(member, Suspect("x", 0, "nan", 1)),
    "a later attempt": lambda training, member: training.join(join(0, 7), False),
    "a task that was given up": lambda training, member: training.state.ledger.supersede(0, 0),
}


@pytest.mark.parametrize("what", [None, *STOPS])
def test_only_who_does_nothing_but_train_takes_it(what: str | None) -> None:
    run = Run(Downpour())
    try:
        member, _ = run.training.join(join(0, 0), False)
        run.training.push(member, push(), ONES.copy())
        if what is not None:
            STOPS[what](run.training, member)
        armed: list[tuple[int, ...]] = []
        run.training.reports.fast.arm(member, lambda *place: armed.append(place))
        assert armed == ([(0, 1, 0, 0)] if what is None else [])
    finally:
        run.served.close()


def test_a_worker_in_whose_place_another_has_come_is_told_at_its_next_push(
    begin: Callable[..., Run],
) -> None:
    run = begin()
    early = run.worker(0, task=1)
    steady(run, early)
    late = run.worker(0, task=2)
    assert late.sequence == 3 * STEADY
    assert early.push().status == "superseded"
    assert late.push().status == "committed"
    assert run.committed(0) == 3 * STEADY + 1


def test_a_push_that_comes_again_counts_once(begin: Callable[..., Run]) -> None:
    run = begin()
    worker = run.worker(0, task=1)
    steady(run, worker)
    for _ in range(3):
        worker.sequence -= 1
        assert worker.push().status == "duplicate"
        assert worker.push().status == "committed"
    worker.connection.abort()
    late = run.worker(0, task=1)
    late.sequence -= 1
    assert late.push().status == "duplicate"
    assert run.committed(0) == run.version == 3 * STEADY + 3


def test_a_push_that_came_while_the_center_was_held_counts_once_too(
    begin: Callable[..., Run], compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin()
    worker = run.worker()
    steady(run, worker)
    center = run.training.store
    before = run.slow
    with monkeypatch.context() as only:
        # As while a reader has the center, at the very moment in which the next push is agreed to.
        only.setattr(center, "seize", lambda: False)
        if center.path is not None:
            center.path.hold()
        worker.push()
        if center.path is not None:
            center.path.release()
        assert run.slow == before + 1
        worker.sequence -= 1
        assert worker.push().status == "duplicate"
    assert run.committed(0) == run.version == 3 * STEADY + 1


def test_who_waits_for_milestones_hears_of_them(begin: Callable[..., Run]) -> None:
    run = begin()
    worker, state = run.worker(), run.training.state
    steady(run, worker)
    many = 20 * STEADY
    thread = threading.Thread(target=lambda: [worker.push() for _ in range(many - 3 * STEADY)])
    with state.changed:
        thread.start()
        assert state.changed.wait_for(lambda: state.ledger.committed(0, 0).steps >= many, 20)
    thread.join()


def test_a_copy_of_the_run_is_of_one_moment(begin: Callable[..., Run], compiled: bool) -> None:
    """Every push adds 1: ledger and center say the same, however many come meanwhile."""
    run = begin()
    workers = run.worker(0), run.worker(1)
    steady(run, *workers)
    ended = threading.Event()

    def train(worker: Worker) -> None:
        while not ended.is_set():
            worker.push()

    threads = [threading.Thread(target=train, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    found = []
    try:
        for number in range(20):
            reached = 3 * STEADY * (2 + number)
            until(lambda reached=reached: run.version >= reached)
            snapshot: Any = run.training.snapshot()
            counted = sum(record[2] for record in snapshot.progress.ledger["records"])
            copied = snapshot.progress.copied
            found.append((copied.version, copied.center[:4].view(np.float32)[0], counted))
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert all(version == value == count for version, value, count in found)
    assert (run.slow < found[-1][0] / 2) == compiled


# -- what goes wrong -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"epoch": 1},
        {"steps": 2, "samples": 1},
        {"base_version": 10_000},
        {"settings_version": 7},
        {"metrics": (0.5,)},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_push_that_contradicts_itself_is_refused_and_changes_nothing(
    begin: Callable[..., Run], fields: dict[str, Any]
) -> None:
    run = begin()
    worker, other = run.worker(0), run.worker(1)
    steady(run, worker)
    before = run.training.store.center.tobytes()
    with pytest.raises(RemoteProtocolError):
        worker.push(**fields)
    assert run.training.store.center.tobytes() == before
    assert run.committed(0) == 3 * STEADY
    assert other.push().status == "committed"


def test_a_sum_beyond_the_range_ends_the_run_with_its_reason(begin: Callable[..., Run]) -> None:
    run = begin()
    worker = run.worker()
    steady(run, worker)
    huge = LAYOUT.pack([np.full(spec.shape, 3e38, spec.dtype) for spec in LAYOUT.specs])
    worker.push(huge)
    worker.push(huge)
    assert isinstance(run.training.error, CombinerError)
    assert "within the range" in str(run.training.error)
    assert run.training.store.torn
    assert run.committed(0) == 3 * STEADY + 1


def test_an_update_that_is_not_finite_is_none_of_the_fast_path(begin: Callable[..., Run]) -> None:
    run = begin()
    worker = run.worker()
    steady(run, worker)
    worker.push(
        LAYOUT.pack([np.full(s.shape, np.nan, s.dtype) for s in LAYOUT.specs]), finite=False
    )
    assert isinstance(run.training.error, TosError)
    assert run.committed(0) == 3 * STEADY


def test_a_reader_that_is_slow_gets_its_answers_and_holds_up_no_other(
    begin: Callable[..., Run], compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn, owed = RequestServer.spawn, list[int]()

    def spawn_with_little_room(self: Any, channel: Any) -> None:
        channel._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        spawn(self, channel)

    look = TcpChannel.look

    def look_and_tell(self: Any) -> Any:
        found = look(self)
        owed.extend([len(self._unsent)] if self.owes else [])
        return found

    monkeypatch.setattr(RequestServer, "spawn", spawn_with_little_room)
    monkeypatch.setattr(TcpChannel, "look", look_and_tell)
    size = 5_000
    layout = Layout([ParameterSpec("W", (size,), "float32")])
    run = begin(Downpour(), ASP, layout)
    ones = layout.pack([np.ones(size, np.float32)])
    slow, other = run.worker(0), run.worker(1)
    channel: Any = slow.connection._channel
    sock = channel._sock
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    for _ in range(2 * STEADY):
        slow.push(ones)
    sent, before, began = 0, run.version, 1000
    # It reads nothing, until an answer has no room any more.
    while sent < 400:
        head = encode_head(push(slow.sequence + sent), began + sent, ones.nbytes)
        sock.sendall(head + ones.tobytes())
        sent += 1
        goal = before + sent
        if not reaches(lambda goal=goal: run.version >= goal, 0.5):
            break
    assert other.push(ones).status == "committed"
    assert not compiled or owed
    for number in range(sent):
        answer = bytearray()
        while len(answer) < HEADER_SIZE + REPLY.size + ones.nbytes:
            answer += sock.recv(HEADER_SIZE + REPLY.size + ones.nbytes - len(answer))
        assert decode_header(answer).sequence == began + number
        version = int.from_bytes(answer[HEADER_SIZE : HEADER_SIZE + 8], "big")
        assert set(np.frombuffer(answer[HEADER_SIZE + REPLY.size :], np.float32)) == {version}
    assert run.committed(0) == 2 * STEADY + sent


def reaches(test: Callable[[], bool], limit: float) -> bool:
    """Whether something comes true within some seconds."""
    try:
        until(test, limit)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("compiled", ["compiled"], indirect=True)
@pytest.mark.parametrize("lost", [(Ledger, "admit_all"), (Member, "milestone")])
def test_what_was_merged_and_cannot_be_counted_ends_the_run(
    begin: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, lost: tuple[Any, str]
) -> None:
    """Without the fast path, each push is counted before it is merged."""
    run = begin()
    worker, other = run.worker(0), run.worker(1)
    steady(run, worker, other)

    def full(*given: Any) -> None:
        raise MemoryError("full")

    monkeypatch.setattr(*lost, full)
    worker.push()
    until(lambda: run.training.error is not None)
    assert "could not be counted: MemoryError" in str(run.training.error)
    with pytest.raises(CheckpointError, match="do not count"):
        run.training.snapshot()
    assert other.push().directive is Directive.STOP


def test_an_epoch_that_ends_is_counted_with_all_that_was_pushed(
    begin: Callable[..., Run], compiled: bool
) -> None:
    run = begin()
    worker = run.worker()
    for _ in range(100):
        worker.push()
    proceed, _ = worker.connection.request(finish(0, 100, 100))
    assert proceed.directive is Directive.GO
    worker.sequence = 0
    for _ in range(MANY):
        worker.push(epoch=1)
    assert (run.committed(0), run.committed(0, epoch=1)) == (100, MANY)
    assert (run.slow < 100) == compiled


# -- without locks -------------------------------------------------------------------------


class Adds:
    """A worker that changes the parameters by itself, and only says so."""

    def __init__(self, run: Run, partition: int) -> None:
        self.connection = run.served.connect()
        joined, _ = self.connection.request(join(partition, 10 + partition))
        self.sequence = joined.sequence
        proceed, _ = self.connection.request(Poll(0))
        self.version = proceed.version

    def push(self, **fields: Any) -> Any:
        message = push(self.sequence, base_version=self.version, **fields)
        reply, payload = self.connection.request(message)
        assert payload is None
        self.sequence += 1
        self.version = reply.version
        return reply


def test_what_workers_add_by_themselves_is_counted_as_on_the_long_way(
    begin: Callable[..., Run], compiled: bool
) -> None:
    run = begin(Downpour(), ASP, LAYOUT, False)
    workers = Adds(run, 0), Adds(run, 1)
    for number in range(MANY):
        reply = workers[number % 2].push()
        assert (reply.status, reply.directive) == ("committed", Directive.GO)
        assert reply.version == number + 1
    run.training.command(Command.PAUSE, "")
    assert [worker.push().directive for worker in workers] == [Directive.WAIT] * 2
    milestones = run.milestones
    assert [event.version for event in milestones] == list(range(1, MANY + 3))
    assert {event.staleness for event in milestones[2:]} == {1}
    assert {(event.bytes_up, event.bytes_down) for event in milestones} == {(LAYOUT.nbytes,) * 2}
    assert run.committed(0) == run.committed(1) == MANY // 2 + 1
    assert (run.slow < MANY - STEADY) == compiled
    run.training.trainer.parameters.close()


def test_what_was_received_when_the_thread_for_all_fails_is_not_lost(
    begin: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full = threading.Event()

    def fragile() -> Any:
        made = new_poller()
        wait = made.wait

        def wait_and_fail() -> Any:
            found = wait()
            if full.is_set():
                raise MemoryError("full")
            return found

        monkeypatch.setattr(made, "wait", wait_and_fail)
        return made

    monkeypatch.setattr(reactor, "new_poller", fragile)
    run = begin()
    worker = run.worker()
    for _ in range(100):
        worker.push()
    full.set()
    # The fast path receives this, and leaves it to the thread that fails.
    proceed, _ = worker.connection.request(finish(0, 100, 100))
    assert proceed.directive is Directive.GO
    assert run.committed(0) == 100
    assert "reactor has ended" in caplog.text
