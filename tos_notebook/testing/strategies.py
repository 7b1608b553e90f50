"""What every strategy must do: train, obey, survive a lost worker, and count each batch once.

The control plane, the strategy's two sides and the worker loop are the real ones. They run in one
process, over the transport within a process, and train programs without TensorFlow.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

import numpy as np

from ..blocks.partitioners import RandomPartitioner
from ..common.checks import positive
from ..common.threads import in_thread
from ..coordination.job_span import DataLayout
from ..coordination.snapshots import Progress
from ..errors import ConfigError, StrategyCheckFailed, WaitTimeout
from ..events import CommandApplied, MilestoneCommitted
from ..steering.machine import Command
from ..strategies.base import Strategy
from ..strategies.registry import as_strategy
from .bench import GRACE, Bench, Deadline, Trial, initial, require
from .failures import described
from .programs import SoftmaxRegression
from .report import CheckReport, Finding

TIMEOUT = 20.0
"""Seconds for one check. All of them together take less than one where nothing is wrong."""

ROWS = np.arange(1.0, 61.0)


def _same(bench: Bench, epochs: int = 1) -> None:
    """Check that what is trained has changed as epochs of `ROWS` must change it."""
    expected = {name: epochs * value for name, value in bench.in_an_epoch(ROWS).items()}
    found = bench.values()
    near = all(abs(found[name] - value) < 1e-9 * value for name, value in expected.items())
    require(near, f"{expected}", found)


def _trains_as_one_process(trial: Trial) -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(30, 4)), random.integers(0, 3, 30)
    program, alone = SoftmaxRegression(), SoftmaxRegression()
    layout = alone.spec.layout
    expected = layout.tensors(initial(layout))
    for _ in range(2):
        for row in range(len(y)):
            alone.step(expected, (x[row : row + 1], y[row : row + 1]))
    with trial.bench(program) as bench:
        bench.begin((x, y), 1, range(2))
        bench.work()
        found = layout.tensors(bench.run.parameters.read()[0])
    for name, value in expected.items():
        off = float(np.abs(found[name] - value).max())
        require(off < 1e-9, f"{name} as trained in one process", f"values {off:g} off")


def _counts_each_batch_once(trial: Trial) -> None:
    with trial.bench() as bench:
        bench.begin((ROWS,), 3, range(1))
        bench.work()
        _same(bench)
        told = bench.rows_told()
        require(told == len(ROWS), f"milestones that tell of {len(ROWS)} rows", told)


def _survives_a_lost_worker(trial: Trial) -> None:
    for number in (0, 7):
        with trial.bench() as bench:
            bench.begin((ROWS,), 3, range(1))
            bench.work(lose=number)
            _same(bench)


def _pauses_and_continues(trial: Trial) -> None:
    needed = {Command.PAUSE, Command.UNPAUSE, Command.STOP}
    require(
        needed <= trial.strategy.commands, "pause, unpause and stop among its commands", "fewer"
    )
    with trial.bench() as bench:
        bench.begin((ROWS,), 2, range(1))
        bench.run.command(Command.PAUSE)
        ended = bench.start()
        bench.wait(CommandApplied, command=Command.PAUSE)
        before = bench.values()
        require(before["rows"] == 0, "no rows while it is paused", before)
        bench.run.command(Command.UNPAUSE)
        ended()
        _same(bench)
    with trial.bench() as bench:
        bench.begin((ROWS,), 2, range(100_000))
        ended = bench.start()
        bench.wait(MilestoneCommitted)
        bench.run.command(Command.PAUSE)
        bench.wait(CommandApplied, command=Command.PAUSE)
        rows, held = bench.values()["rows"], bench.counted()
        require(rows == held, f"{held}, which milestones tell of, in a pause", rows)
        bench.run.command(Command.UNPAUSE)
        bench.run.command(Command.STOP)
        ended()


def _stops(trial: Trial) -> None:
    with trial.bench() as bench:
        bench.begin((ROWS,), 2, range(100_000))
        ended = bench.start()
        bench.wait(MilestoneCommitted)
        bench.run.command(Command.STOP)
        ended()
        bench.run.settle()
        told, found = bench.counted(), bench.values()
        require(found["rows"] == told > 0, f"{told}, which milestones tell of", found)


def _changes_settings(trial: Trial) -> None:
    program = SoftmaxRegression()
    with trial.bench(program) as bench:
        bench.begin((np.zeros((8, 4)), np.zeros(8, np.int64)), 1, range(1))
        bench.run.change_settings(Command.SET, "learning_rate=0.25", learning_rate=0.25)
        bench.work()
        require(program.rate == 0.25, "a learning rate of 0.25", program.rate)


def _repartitions(trial: Trial) -> None:
    with trial.bench() as bench:
        expected = 0.0
        for epoch, partitions in enumerate((2, 3)):
            layout = DataLayout(partitions, RandomPartitioner(partitions), epoch) if epoch else None
            bench.begin((ROWS,), partitions, range(epoch, epoch + 1), layout)
            bench.work()
            expected += bench.in_an_epoch(ROWS)["total"]
        found = bench.values()["total"]
        require(abs(found - expected) < 1e-9 * expected, f"{expected:g} after two epochs", found)


def _continues_from_a_checkpoint(trial: Trial) -> None:
    with trial.bench() as bench:
        bench.begin((ROWS,), 2, range(1))
        bench.work()
        taken = bench.run.snapshot()
        if taken is None:
            raise AssertionError("expected a copy of the run, got none")
        version = bench.run.parameters.version
        require(version == taken.progress.copied.version > 0, "a copy of its version", version)
        # What comes later must not be in the copy.
        bench.begin((ROWS,), 2, range(1, 2))
        bench.work()
    strategy = trial.strategy
    value, arrays = strategy.to_parts(taken.progress.copied)
    copied = strategy.from_parts(json.loads(json.dumps(value)), [a.copy() for a in arrays])
    saved = json.dumps(strategy.settings_to_json(trial.settings))
    trial.settings = strategy.settings_from_json(json.loads(saved))
    done = taken.progress
    with trial.bench() as bench:
        bench.run.restore(Progress(done.ledger, copied, done.samples, done.rows, done.reached))
        bench.begin((ROWS,), 2, range(1, 2))
        _same(bench)
        bench.work()
        _same(bench, epochs=2)


CHECKS: dict[str, Callable[[Trial], None]] = {
    "one worker trains as one process does": _trains_as_one_process,
    "every batch counts once": _counts_each_batch_once,
    "a lost worker's batches count once": _survives_a_lost_worker,
    "a pause holds all workers, and they continue": _pauses_and_continues,
    "a stop ends all workers": _stops,
    "settings reach the workers": _changes_settings,
    "the data can be repartitioned": _repartitions,
    "a run continues from its checkpoint": _continues_from_a_checkpoint,
}
"""What must hold, by what it says."""


def check_strategy(strategy: Any, timeout: float = TIMEOUT) -> CheckReport:
    """Check what must hold for any strategy, over the transport within this process.

    Parameters
    ----------
    strategy : str, Strategy or class
        A name of the registry, or any object with what `Strategy` says.
    timeout : float
        Seconds for each check. One that takes longer has failed, and the report says where its
        threads stand. Those that follow are skipped, since most would wait in the same place.

    Returns
    -------
    CheckReport
        Prints as a table; all checks hold.

    Raises
    ------
    StrategyCheckFailed
        A check failed; the message is the report. What made the first one fail is the
        ``__cause__``, and has what the strategy raised, in whichever thread, as its own.
    ConfigError
        It is not a strategy, takes the optimizer's place, needs TensorFlow, or the timeout is not
        above 0.

    Examples
    --------
    >>> from tos_notebook.strategies.ps.strategy import ParameterServer
    >>> tos.testing.check_strategy(ParameterServer())                         # doctest: +SKIP
    """
    positive("timeout", timeout)
    made: Strategy = as_strategy(strategy) if isinstance(strategy, str) else strategy
    if isinstance(made, type):
        made = made()
    if not callable(getattr(made, "exact_settings", None)):
        raise ConfigError(f"check_strategy: expected a strategy, got {strategy!r}.")
    if "no optimizer" in made.needs:
        raise ConfigError(
            f"check_strategy: expected a strategy that trains by the program's optimizer, got "
            f"{made.name!r}, which takes its place. Compare it with its own formula instead."
        )
    if "graph" in made.needs:
        raise ConfigError(
            f"check_strategy: expected a strategy that trains programs without TensorFlow, got "
            f"{made.name!r}, whose sessions run a graph. Train a small one on Spark instead."
        )
    findings, errors = [], list[Exception]()
    for what, check in CHECKS.items():
        if errors and isinstance(errors[-1], WaitTimeout):
            findings.append(Finding(what, "skipped", "the check before stands still"))
            continue
        try:
            _run(check, made, Deadline(timeout))
        except Exception as error:
            ours = isinstance(error, AssertionError | WaitTimeout) and str(error)
            findings.append(Finding(what, "FAILED", ours or described(error)))
            errors.append(error)
        else:
            findings.append(Finding(what, "ok"))
    report = CheckReport(f"strategy {made.name}", tuple(findings))
    if errors:
        raise StrategyCheckFailed(repr(report)) from errors[0]
    return report


def _run(check: Callable[[Trial], None], strategy: Strategy, deadline: Deadline) -> None:
    """Make one check, in a thread: what it calls of the strategy may never return."""
    outcome = in_thread("check-driver", lambda: check(Trial(strategy, deadline)))
    wait([outcome], deadline.left + 2 * GRACE)
    if not outcome.done():
        found = deadline.missed("the check to end")
        raise found
    outcome.result()
