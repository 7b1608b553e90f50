"""`Run.swap_strategy`, with jobs that run in threads instead of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import Counting
from tests.support.threads import LIMIT
from tests.unit.training.test_run import ROWS, Setting, exact
from tests.unit.worker.support import center, nothing_left, numbers, of
from tos_notebook.data.arrays import ArraySource
from tos_notebook.errors import ConfigError, InvalidTransition, TosError, UnsupportedProgram
from tos_notebook.events import (
    CommandAccepted,
    CommandApplied,
    CommandLapsed,
    EpochFinished,
    Event,
    MilestoneCommitted,
    Repartitioned,
    StrategySwapped,
)
from tos_notebook.strategies import AllReduce, TreeAggregate
from tos_notebook.training import epochs as epochs_module
from tos_notebook.training.advice import RunAdvisor
from tos_notebook.training.results import report
from tos_notebook.training.run import Run

BATCH = 2
GRADIENTS = "allreduce (codec=fp32, of=gradients, algorithm=star, sync_interval=1)"


class Swapping(Setting):
    """Asks in the midst of the first epoch, when it is told to, before any worker goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.asks: dict[int, Callable[[Run], object]] = {}
        self.epoch = -1

    def go(self, asks: dict[int, Callable[[Run], object]], **options: Any) -> Run:
        """Start a run, and ask in the jobs of these numbers; return it once it has ended."""
        self.asks, run = asks, self.make(**options)
        self.cluster.before = lambda job: self._before(run, job)
        run.lifecycle.begin(run, ())
        return run.wait(LIMIT)

    def _before(self, run: Run, job: int) -> None:
        # The job has begun: what is asked for now waits for the end of its first epoch.
        ask = self.asks.get(job)
        if ask is not None:
            ask(run)
        pushes = run.parts.training.settings.strategy.for_worker()["pushes"]

        def make(partition: int) -> Counting:
            program = Counting()
            program.gradients = pushes == "gradients"
            return program

        self.cluster.make = make


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Swapping]:
    with nothing_left(tmp_path / "shared"):
        made = Swapping()
        monkeypatch.setattr(epochs_module, "run_job", made.cluster.run_job)
        yield made
        made.close()


def by_gradients(partitions: int = 2) -> dict[str, float]:
    """Return what an epoch by gradients adds: the mean row of each step of all workers."""
    source = ArraySource((numbers(ROWS),), partitions)
    parts = [source.rows(partition)[0] for partition in range(partitions)]
    steps = ROWS // partitions // BATCH
    # Every order of the rows has the same sum of means, as all batches are of one size.
    total = sum(float(np.sum(part)) for part in parts) / (partitions * BATCH)
    return {"total": total, "rows": steps}


def test_the_algorithm_that_workers_have_chosen_is_shown_until_the_next_swap(
    setting: Swapping,
) -> None:
    shown: list[str] = []

    def choose(run: Run) -> None:
        run.parts.training.reports.describe_links("ring", "Workers exchange by ring.")
        shown.append(run.settings.strategy_text)
        assert "Workers exchange by ring." in run.status.notes
        run.swap_strategy(AllReduce("parameters", algorithm="star"))

    run = setting.go({0: lambda run: run.swap_strategy("allreduce:star"), 1: choose}, epochs=3)
    assert shown == ["allreduce (of gradients, algorithm ring, chosen by star)"]
    assert run.settings.strategy_text == "allreduce (of parameters, algorithm star)"


def test_of_steps_made_together_there_is_no_combiner_to_swap(setting: Swapping) -> None:
    def ask(run: Run) -> None:
        with pytest.raises(InvalidTransition) as refused:
            run.swap_combiner("easgd")
        assert "with strategy='allreduce' all workers make each step together" in str(refused.value)
        assert "run.swap_strategy('ps', combiner=...)" in str(refused.value)

    setting.go({0: lambda run: run.swap_strategy("allreduce:star"), 1: ask}, epochs=2)


def test_a_swap_takes_effect_at_the_end_of_the_epoch_and_keeps_the_parameters(
    setting: Swapping,
) -> None:
    run = setting.go({0: lambda run: run.swap_strategy("allreduce:star")}, epochs=3)
    assert setting.cluster.jobs == [2, 2]
    (event,) = of(StrategySwapped, setting.events)
    assert (event.epoch, event.strategy, event.lockstep) == (1, "allreduce", True)
    asked = [(e.command, e.detail) for e in of(CommandAccepted, setting.events)]
    applied = [(e.command, e.detail) for e in of(CommandApplied, setting.events)]
    assert asked == applied == [("swap strategy", GRADIENTS)]
    once, twice = exact(1), by_gradients()
    assert center(run.parts.training) == pytest.approx(
        {name: once[name] + 2 * twice[name] for name in once}
    )
    assert [e.samples for e in of(EpochFinished, setting.events)] == [ROWS] * 3
    assert (run.settings.strategy, run.settings.lockstep, run.settings.sync) == (
        "allreduce", True, "bsp",
    )  # fmt: skip


def test_theory_and_advice_are_of_the_strategy_in_force(
    setting: Swapping, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    note = lambda self, strategy, source: asked.append(strategy.name)  # noqa: E731
    monkeypatch.setattr(RunAdvisor, "advice", note)
    swap = TreeAggregate(convergence_tol=0)
    asks = {0: lambda run: run.swap_strategy(swap), 1: lambda run: run.status}
    run = setting.go(asks, epochs=2)
    found = run.theory
    assert "by treeaggregate" in found.loc["rows a second", "meaning"]
    assert not [name for name in found.index if name.startswith("rows a second by ")]
    assert asked[-1] == "treeaggregate"


def test_versions_and_the_global_step_go_on(setting: Swapping) -> None:
    run = setting.go(
        {
            0: lambda run: run.swap_strategy("allreduce:star"),
            1: lambda run: run.swap_strategy("ps", combiner="downpour", sync_interval=1),
        },
        epochs=3,
    )
    milestones: list[MilestoneCommitted] = of(MilestoneCommitted, setting.events)
    batches = ROWS // BATCH
    versions = sorted({m.version for m in milestones})
    assert versions == list(range(1, batches + batches // 2 + batches + 1))
    assert (
        run.status.steps
        == batches + batches // 2 + batches
        == run.parts.training.parameters.version
    )
    assert [s.strategy for s in of(StrategySwapped, setting.events)] == ["allreduce", "ps"]
    assert [e.samples for e in of(EpochFinished, setting.events)] == [ROWS] * 3
    twice, once = exact(2), by_gradients()
    assert center(run.parts.training) == pytest.approx({n: twice[n] + once[n] for n in twice})
    assert run.status.staleness >= 0


def test_the_run_says_once_that_the_optimizer_began_anew(setting: Swapping) -> None:
    run = setting.go(
        {
            0: lambda run: run.swap_strategy("allreduce:star"),
            1: lambda run: run.swap_strategy("ps", combiner="downpour"),
        },
        epochs=3,
    )
    said = [note for note in run.status.notes if "optimizer" in note]
    assert said == ["The optimizer's state was reset with epoch 3, by strategy 'ps'."]


def test_an_optimizer_in_the_driver_goes_on(setting: Swapping) -> None:
    run = setting.go(
        {
            0: lambda run: run.swap_strategy("allreduce:star"),
            1: lambda run: run.swap_strategy(AllReduce(every=2, algorithm="star")),
        },
        epochs=3,
    )
    said = [note for note in run.status.notes if "optimizer" in note]
    assert said == ["The optimizer's state was reset with epoch 2, by strategy 'allreduce'."]
    assert run.settings.sync_interval == 2


def test_what_waits_for_the_end_of_the_epoch_is_shown_until_then(setting: Swapping) -> None:
    seen: list[tuple[str, ...]] = []

    def ask(run: Run) -> None:
        run.swap_strategy("allreduce:star")
        run.repartition(2)
        seen.append(run.status.pending)

    run = setting.go({0: ask}, epochs=2)
    assert seen == [
        (
            f"Swap strategy waits for the end of the epoch: {GRADIENTS}",
            "Repartition waits for the end of the epoch: 2 partitions",
        )
    ]
    assert run.status.pending == ()


def test_an_optimizer_without_state_is_not_said_to_be_reset(setting: Swapping) -> None:
    setting.program.optimizer_state = ()
    run = setting.go({0: lambda run: run.swap_strategy("allreduce:star")}, epochs=2)
    assert [swap.strategy for swap in run.parts.history.swaps] == ["allreduce"]
    assert run.status.notes == ()


REFUSED: dict[str, tuple[Callable[[Run], object], type[TosError], str]] = {
    "unknown": (lambda run: run.swap_strategy("allreduc"), ConfigError, "Did you mean allreduce"),
    "unchanged": (lambda run: run.swap_strategy("ps"), InvalidTransition, "in this way already"),
    "unfit combiner": (
        lambda run: run.swap_strategy("allreduce:star", combiner="easgd"),
        ConfigError,
        "combiner: expected none where workers average gradients",
    ),
    "unfit sync": (
        lambda run: run.swap_strategy("allreduce:star", sync="asp"),
        ConfigError,
        "'bsp'",
    ),
    "unfit order": (
        lambda run: run.swap_strategy(TreeAggregate(sampler="mllib")),
        ConfigError,
        "shuffle: expected False with sampler='mllib'",
    ),
    "interval": (lambda run: run.swap_strategy("ps", sync_interval=0), ConfigError, "at least 1"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_a_swap_that_cannot_be_made_is_refused_at_once_and_changes_nothing(
    setting: Swapping, which: str
) -> None:
    ask, error, message = REFUSED[which]

    def refused(run: Run) -> None:
        with pytest.raises(error, match=message):
            ask(run)

    setting.go({0: refused}, epochs=3)
    assert setting.cluster.jobs == [2]
    assert setting.program.written == [exact(3)]
    assert not setting.methods
    assert not of(CommandAccepted, setting.events)


def test_a_program_that_cannot_be_cut_is_refused_at_once(setting: Swapping) -> None:
    setting.uncut = UnsupportedProgram("The program cannot be trained by gradients, since no.")

    def refused(run: Run) -> None:
        with pytest.raises(UnsupportedProgram, match="cannot be trained by gradients"):
            run.swap_strategy("allreduce:star")

    setting.go({0: refused}, epochs=2)
    assert setting.program.written == [exact(2)]


@pytest.mark.parametrize("epochs", [1, 2])
def test_no_swap_in_the_last_epoch(setting: Swapping, epochs: int) -> None:
    def refused(run: Run) -> None:
        with pytest.raises(InvalidTransition, match="trains its last epoch"):
            run.swap_strategy("allreduce:star")

    first: dict[int, Callable[[Run], object]] = {0: lambda run: run.repartition(2), 1: refused}
    setting.go({0: refused} if epochs == 1 else first, epochs=epochs)
    assert setting.program.written == [exact(epochs)]


def test_more_partitions_than_slots_are_refused_whichever_is_asked_for_first(
    setting: Swapping,
) -> None:
    def refused(run: Run) -> None:
        run.swap_strategy("allreduce:star")
        with pytest.raises(ConfigError, match=r"each of the 3 partitions at once\. It runs 2"):
            run.repartition(3)
        run.swap_strategy("ps")
        run.repartition(3)
        with pytest.raises(ConfigError, match=r"each of the 3 partitions at once\. It runs 2"):
            run.swap_strategy("allreduce:star")

    setting.go({0: refused}, epochs=2)
    assert setting.cluster.jobs == [2, 3]
    assert setting.program.written == [exact(2)]
    assert not of(StrategySwapped, setting.events)


@pytest.mark.parametrize("first", ["swap", "repartition"])
def test_a_repartition_and_a_swap_in_one_epoch_both_apply(setting: Swapping, first: str) -> None:
    asks: list[Callable[[Run], object]] = [
        lambda run: run.swap_strategy("allreduce:star"),
        lambda run: run.repartition(1),
    ]

    def both(run: Run) -> None:
        for ask in asks if first == "swap" else reversed(asks):
            ask(run)

    run = setting.go({0: both}, epochs=2)
    assert setting.cluster.jobs == [2, 1]
    assert len(of(Repartitioned, setting.events)) == len(of(StrategySwapped, setting.events)) == 1
    assert {e.command for e in of(CommandApplied, setting.events)} == {
        "swap strategy", "repartition",
    }  # fmt: skip
    once, more = exact(1), by_gradients(1)
    assert center(run.parts.training) == pytest.approx({n: once[n] + more[n] for n in once})


def test_the_last_of_several_swaps_in_an_epoch_wins(setting: Swapping) -> None:
    def several(run: Run) -> None:
        run.swap_strategy("allreduce:star")
        run.swap_strategy(AllReduce("parameters", algorithm="star"))

    run = setting.go({0: several}, epochs=2)
    (lapsed,) = of(CommandLapsed, setting.events)
    assert lapsed.detail == f"{GRADIENTS}: a later swap has taken its place"
    assert run.settings.own == {"of": "parameters", "algorithm": "star"}
    assert len(of(StrategySwapped, setting.events)) == 1


def test_a_swap_back_to_what_is_in_force_takes_the_other_back(setting: Swapping) -> None:
    def there_and_back(run: Run) -> None:
        run.swap_strategy("allreduce:star")
        run.swap_strategy("ps")

    run = setting.go({0: there_and_back}, epochs=2)
    assert run.settings.strategy == "ps"
    assert len(of(CommandLapsed, setting.events)) == len(of(CommandApplied, setting.events)) == 1
    assert setting.program.written == [exact(2)]


def test_a_swap_of_a_run_that_is_stopped_before_the_epoch_ends_lapses(setting: Swapping) -> None:
    def stop(run: Run) -> None:
        run.swap_strategy("allreduce:star")
        run.parts.training.command("stop")  # type: ignore[arg-type]

    run = setting.go({0: stop}, epochs=2)
    assert run.state == "stopped"
    (lapsed,) = of(CommandLapsed, setting.events)
    assert lapsed.detail == f"{GRADIENTS}: no epoch followed"


def test_what_is_set_before_the_epoch_ends_stays_in_force(setting: Swapping) -> None:
    def ask(run: Run) -> None:
        run.pause()
        run.swap_strategy(AllReduce("parameters", algorithm="star"), sync_interval=3)
        run.set(sync="ssp:3")
        run.swap_combiner("easgd")
        run.unpause()

    run = setting.go({0: ask}, epochs=2)
    settings = run.settings
    assert (settings.strategy, settings.sync, settings.sync_interval) == ("allreduce", "bsp", 3)
    assert settings.combiner is None


def test_a_swap_of_the_same_strategy_keeps_what_is_not_given(setting: Swapping) -> None:
    run = setting.go({0: lambda run: run.swap_strategy("ps", sync="bsp")}, epochs=2)
    settings = run.settings
    assert (settings.sync, settings.sync_interval) == ("bsp", 1)
    assert settings.combiner is not None
    assert settings.combiner.name == "downpour"
    assert setting.program.written == [exact(2)]


def test_the_report_names_the_swaps(setting: Swapping, tmp_path: Path) -> None:
    run = setting.go({0: lambda run: run.swap_strategy("allreduce:star")}, epochs=2)
    path = report.write(run, run.parts.history, "keep", tmp_path / "report.html")
    assert "allreduce from epoch 2 on" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("epoch", [0, 1])
def test_every_row_counts_once_when_a_worker_dies_beside_a_swap(
    setting: Swapping, epoch: int
) -> None:
    setting.cluster.tries = 2
    died: list[int] = []

    def die(event: Event) -> None:
        if isinstance(event, MilestoneCommitted) and event.epoch == epoch and not died:
            died.append(event.partition)
            assert setting.cluster.served is not None
            setting.cluster.served.connections[-1].abort()

    asks: dict[int, Callable[[Run], object]] = {0: lambda run: run.swap_strategy("allreduce:star")}
    run = setting.go(asks, epochs=3, sinks=(die,))
    assert died
    assert run.state == "finished"
    once, more = exact(1), by_gradients()
    assert center(run.parts.training) == pytest.approx({n: once[n] + 2 * more[n] for n in once})
    assert [e.samples for e in of(EpochFinished, setting.events)] == [ROWS] * 3
