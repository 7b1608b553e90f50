"""What every strategy must do: train, obey, survive a lost worker, and count each batch once.

The control plane, the strategy's two sides and the worker loop are the real ones. They run in one
process, over the transport within a process, and train programs without TensorFlow.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..blocks.partitioners import RandomPartitioner
from ..common.arrays import Array, Buffer
from ..coordination.coordinator import Coordinator
from ..coordination.job_span import DataLayout
from ..coordination.server import WorkerHandler
from ..coordination.settings import Settings
from ..coordination.snapshots import Progress
from ..data.arrays import ArraySource
from ..errors import ConfigError, ConnectionClosed, StrategyCheckFailed, TosError, TransportError
from ..events import CommandApplied, Event, MilestoneCommitted
from ..layout import Layout
from ..steering.machine import Command
from ..strategies.base import Strategy
from ..strategies.registry import as_strategy
from ..transport.inproc import InprocListener, connect_inproc
from ..wire.messages import Join, Push
from ..worker.loop import Worker
from ..worker.plan import Plan
from .programs import Counting, NumpyProgram, SoftmaxRegression
from .report import CheckReport, Finding

RUN = "check"
LIMIT = 20.0
"""Seconds after which a check that waits has failed."""

ROWS = np.arange(1.0, 61.0)
EXPECTED = {"total": float(ROWS.sum()), "rows": float(len(ROWS))}
START = 3
"""What all parameters begin with: a strategy that begins with zeros is found."""


class _Bench:
    """A run of a strategy in this process, with a worker for each partition in a thread."""

    def __init__(self, strategy: Strategy, program: NumpyProgram, own: Any) -> None:
        self.strategy, self.program, self.own = strategy, program, own
        self.events: list[Event] = []
        self.told = threading.Condition()
        layout = program.spec.layout
        settings = Settings(own, 1, strategy.sync)
        initial = _initial(layout)
        program.gradients = "gradients" in strategy.needs
        trainer = strategy.trainer(layout, initial, settings, updater=lambda: program)
        # The caller's own, which a strategy must have copied.
        initial[:] = 0
        self.run = Coordinator(
            RUN,
            trainer,
            settings,
            publish=self._publish,
            locate=lambda task: ("check", "here"),
            on_failure=lambda: None,
        )
        self.listener = InprocListener(lambda peer: WorkerHandler(lambda: self.run))
        self.listener.start()
        self._tasks = 0

    def _publish(self, event: Event) -> None:
        with self.told:
            self.events.append(event)
            self.told.notify_all()

    def begin(
        self, columns: Sequence[Array], partitions: int, epochs: range, layout: Any = None
    ) -> None:
        """Lay the rows out for some epochs."""
        source = ArraySource(columns, partitions)
        self.partitions, self.columns = partitions, len(columns)
        self.run.begin_span(source, epochs[0], epochs[-1], layout)

    def work(self, lose: int | None = None) -> None:
        """Train all partitions to the end; the first connection breaks at a push, if told so."""
        errors: list[BaseException] = []

        def work(partition: int) -> None:
            try:
                if lose is not None and partition == 0:
                    try:
                        self._work(partition, lose)
                    except TransportError:
                        self._work(partition)
                else:
                    self._work(partition)
            except BaseException as error:
                errors.append(error)

        partitions = range(self.partitions)
        threads = [threading.Thread(target=work, args=(p,), daemon=True) for p in partitions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
            _require(not thread.is_alive(), f"workers to end within {LIMIT:g} s", "one that waits")
        for error in (*errors, self.run.error):
            if error is not None:
                raise error

    def start(self) -> Callable[[], None]:
        """Train all partitions meanwhile; return what waits for that, and raises its error."""
        outcome: Future[None] = Future()

        def work() -> None:
            try:
                self.work()
            except BaseException as error:
                outcome.set_exception(error)
            else:
                outcome.set_result(None)

        threading.Thread(target=work, daemon=True).start()
        return lambda: outcome.result(2 * LIMIT)

    def _work(self, partition: int, lose: int | None = None) -> None:
        self._tasks += 1
        connection: Any = connect_inproc(self.listener, request_timeout=LIMIT)
        if lose is not None:
            connection = _Breaking(connection, lose)
        join = Join(RUN, partition, self._tasks, self._tasks, "here", 1, segment="", metrics=[])
        plan = Plan(RUN, 0, False, 1, self.columns)
        layout = self.program.spec.layout
        exchange = self.strategy.exchange(connection, layout, RUN, join, None)
        try:
            Worker(connection, exchange, self.program, plan, join).run([])
        finally:
            connection.close()

    def wait(self, kind: type[Event], **fields: Any) -> None:
        """Wait for an event."""

        def came() -> bool:
            return any(
                isinstance(event, kind)
                and all(getattr(event, name) == value for name, value in fields.items())
                for event in self.events
            )

        with self.told:
            found = self.told.wait_for(came, LIMIT)
        _require(found, f"{kind.__name__} within {LIMIT:g} s", "none")

    def values(self) -> dict[str, float]:
        """Return by how much the scalars that are trained have changed."""
        layout = self.program.spec.layout
        tensors = layout.tensors(self.run.parameters.read()[0])
        return {name: float(value) - START for name, value in tensors.items()}

    def rows_told(self) -> int:
        """Return how many rows milestones tell of so far."""
        return sum(milestone.samples for milestone in self._milestones())

    def counted(self) -> int:
        """Return what the counter must be by these milestones: rows, or steps of all workers."""
        if not self.own.lockstep:
            return self.rows_told()
        return len({(m.epoch, m.sequence) for m in self._milestones()})

    def _milestones(self) -> list[MilestoneCommitted]:
        return [event for event in self.events if isinstance(event, MilestoneCommitted)]

    def in_one_epoch(self) -> dict[str, float]:
        """Return what an epoch of `ROWS` must change: their sum, or of each step their mean."""
        if not self.own.lockstep:
            return EXPECTED
        source = ArraySource((ROWS,), self.partitions)
        rows = [source.rows(partition)[0] for partition in range(self.partitions)]
        steps = range(max(map(len, rows)))
        means = [np.mean([part[step] for part in rows if step < len(part)]) for step in steps]
        return {"total": float(sum(means)), "rows": float(len(means))}

    def same(self, epochs: int = 1) -> None:
        """Check that what is trained has changed as epochs of `ROWS` must change it."""
        expected = {name: epochs * value for name, value in self.in_one_epoch().items()}
        found = self.values()
        near = all(abs(found[name] - value) < 1e-9 * value for name, value in expected.items())
        _require(near, f"{expected}", found)

    def close(self) -> None:
        self.listener.close(LIMIT)


class _Breaking:
    """A connection that breaks at a push, after it got through."""

    def __init__(self, connection: Any, number: int) -> None:
        self._connection, self._left = connection, number

    def request(self, message: Any, *rest: Any, **named: Any) -> Any:
        answer = self._connection.request(message, *rest, **named)
        if isinstance(message, Push):
            self._left -= 1
            if self._left < 0:
                self._connection.abort()
                raise ConnectionClosed("The check has cut the connection.")
        return answer

    def close(self) -> None:
        self._connection.close()

    abort = close


def _initial(layout: Layout) -> Buffer:
    """Return parameters that are all `START`."""
    buffer = layout.allocate()
    for tensor in layout.tensors(buffer).values():
        tensor[...] = START
    return buffer


def _require(holds: bool, expected: str, found: object) -> None:
    if not holds:
        raise AssertionError(f"expected {expected}, got {found}")


@contextmanager
def _bench(strategy: Strategy, own: Any, program: NumpyProgram | None = None) -> Iterator[_Bench]:
    bench = _Bench(strategy, program or Counting(), own)
    try:
        yield bench
    finally:
        bench.close()


def _trains_as_one_process(strategy: Strategy, own: Any) -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(30, 4)), random.integers(0, 3, 30)
    program, alone = SoftmaxRegression(), SoftmaxRegression()
    layout = alone.spec.layout
    expected = layout.tensors(_initial(layout))
    for _ in range(2):
        for row in range(len(y)):
            alone.step(expected, (x[row : row + 1], y[row : row + 1]))
    with _bench(strategy, own, program) as bench:
        bench.begin((x, y), 1, range(2))
        bench.work()
        found = layout.tensors(bench.run.parameters.read()[0])
    for name, value in expected.items():
        off = float(np.abs(found[name] - value).max())
        _require(off < 1e-9, f"{name} as trained in one process", f"values {off:g} off")


def _counts_each_batch_once(strategy: Strategy, own: Any) -> None:
    with _bench(strategy, own) as bench:
        bench.begin((ROWS,), 3, range(1))
        bench.work()
        bench.same()
        told = bench.rows_told()
        _require(told == len(ROWS), f"milestones that tell of {len(ROWS)} rows", told)


def _survives_a_lost_worker(strategy: Strategy, own: Any) -> None:
    for number in (0, 7):
        with _bench(strategy, own) as bench:
            bench.begin((ROWS,), 3, range(1))
            bench.work(lose=number)
            bench.same()


def _pauses_and_continues(strategy: Strategy, own: Any) -> None:
    needed = {Command.PAUSE, Command.RESUME, Command.STOP}
    _require(needed <= strategy.commands, "pause, resume and stop among its commands", "fewer")
    with _bench(strategy, own) as bench:
        bench.begin((ROWS,), 2, range(1))
        bench.run.command(Command.PAUSE)
        ended = bench.start()
        bench.wait(CommandApplied, command=Command.PAUSE)
        before = bench.values()
        _require(before["rows"] == 0, "no rows while it is paused", before)
        bench.run.command(Command.RESUME)
        ended()
        bench.same()
    with _bench(strategy, own) as bench:
        bench.begin((ROWS,), 2, range(100_000))
        ended = bench.start()
        bench.wait(MilestoneCommitted)
        bench.run.command(Command.PAUSE)
        bench.wait(CommandApplied, command=Command.PAUSE)
        rows, held = bench.values()["rows"], bench.counted()
        _require(rows == held, f"{held}, which milestones tell of, in a pause", rows)
        bench.run.command(Command.RESUME)
        bench.run.command(Command.STOP)
        ended()


def _stops(strategy: Strategy, own: Any) -> None:
    with _bench(strategy, own) as bench:
        bench.begin((ROWS,), 2, range(100_000))
        ended = bench.start()
        bench.wait(MilestoneCommitted)
        bench.run.command(Command.STOP)
        ended()
        bench.run.settle()
        told, found = bench.counted(), bench.values()
        _require(found["rows"] == told > 0, f"{told}, which milestones tell of", found)


def _changes_settings(strategy: Strategy, own: Any) -> None:
    program = SoftmaxRegression()
    with _bench(strategy, own, program) as bench:
        bench.begin((np.zeros((8, 4)), np.zeros(8, np.int64)), 1, range(1))
        bench.run.change_settings(Command.SET, "learning_rate=0.25", learning_rate=0.25)
        bench.work()
        _require(program.rate == 0.25, "a learning rate of 0.25", program.rate)


def _repartitions(strategy: Strategy, own: Any) -> None:
    with _bench(strategy, own) as bench:
        expected = 0.0
        for epoch, partitions in enumerate((2, 3)):
            layout = DataLayout(partitions, RandomPartitioner(partitions), epoch) if epoch else None
            bench.begin((ROWS,), partitions, range(epoch, epoch + 1), layout)
            bench.work()
            expected += bench.in_one_epoch()["total"]
        found = bench.values()["total"]
        _require(abs(found - expected) < 1e-9 * expected, f"{expected:g} after two epochs", found)


def _continues_from_a_checkpoint(strategy: Strategy, own: Any) -> None:
    with _bench(strategy, own) as bench:
        bench.begin((ROWS,), 2, range(1))
        bench.work()
        taken = bench.run.snapshot()
        if taken is None:
            raise AssertionError("expected a copy of the run, got none")
        version = bench.run.parameters.version
        _require(version == taken.progress.copied.version > 0, "a copy of its version", version)
        # What comes later must not be in the copy.
        bench.begin((ROWS,), 2, range(1, 2))
        bench.work()
    value, arrays = strategy.to_parts(taken.progress.copied)
    copied = strategy.from_parts(json.loads(json.dumps(value)), [a.copy() for a in arrays])
    own = strategy.settings_from_json(json.loads(json.dumps(strategy.settings_to_json(own))))
    done = taken.progress
    with _bench(strategy, own) as bench:
        bench.run.restore(Progress(done.ledger, copied, done.samples, done.rows, done.reached))
        bench.begin((ROWS,), 2, range(1, 2))
        bench.same()
        bench.work()
        bench.same(epochs=2)


CHECKS: dict[str, Callable[[Strategy, Any], None]] = {
    "one worker trains as one process does": _trains_as_one_process,
    "every batch counts once": _counts_each_batch_once,
    "a lost worker's batches count once": _survives_a_lost_worker,
    "a pause holds all workers, and they continue": _pauses_and_continues,
    "a stop ends all workers": _stops,
    "settings reach the workers": _changes_settings,
    "the data can be laid out again": _repartitions,
    "a run continues from its checkpoint": _continues_from_a_checkpoint,
}
"""What must hold, by what it says."""


def check_strategy(strategy: Any) -> CheckReport:
    """Check what must hold for any strategy, over the transport within this process.

    Parameters
    ----------
    strategy : str, Strategy or class
        A name of the registry, or any object with what `Strategy` says.

    Returns
    -------
    CheckReport
        Prints as a table; all checks hold.

    Raises
    ------
    StrategyCheckFailed
        A check failed; the message is the report.
    ConfigError
        It is not a strategy.

    Examples
    --------
    >>> from tos_notebook.strategies.ps.strategy import ParameterServer
    >>> tos.testing.check_strategy(ParameterServer())                         # doctest: +SKIP
    """
    made: Strategy = as_strategy(strategy) if isinstance(strategy, str) else strategy
    if isinstance(made, type):
        made = made()
    if not callable(getattr(made, "exact_settings", None)):
        raise ConfigError(f"check_strategy: expected a strategy, got {strategy!r}.")
    findings = []
    for what, check in CHECKS.items():
        try:
            check(made, made.exact_settings())
        except Exception as error:
            own = isinstance(error, AssertionError | TosError)
            text = str(error) if own else f"{type(error).__name__}: {error}"
            findings.append(Finding(what, "FAILED", text))
        else:
            findings.append(Finding(what, "ok"))
    report = CheckReport(f"strategy {made.name}", tuple(findings))
    if not report.passed:
        raise StrategyCheckFailed(repr(report))
    return report
