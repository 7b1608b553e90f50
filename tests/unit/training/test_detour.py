"""A run goes through the driver by itself, where its workers cannot reach each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.numpy_program import Counting
from tests.unit.training.test_run import ROWS, exact
from tests.unit.training.test_swapping import BATCH, Swapping, by_gradients
from tests.unit.worker.support import center, nothing_left, of
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.common.arrays import Array
from tos_notebook.errors import ConnectError, TransportError
from tos_notebook.events import EpochFinished, JobRestarted, MilestoneCommitted, StrategySwapped
from tos_notebook.steering.machine import Command
from tos_notebook.training import epochs as epochs_module
from tos_notebook.training import swapping
from tos_notebook.training.lifecycle import Lifecycle
from tos_notebook.training.run import Run
from tos_notebook.transport.auth import new_secret

WORKERS = 2


class Dying(Counting):
    """Calls something before its next batch, once that is set."""

    def __init__(self, before: Callable[[], object]) -> None:
        super().__init__()
        self.gradients = True
        self._before = before

    def before(self, batch: tuple[Array, ...]) -> None:
        self._before()


class Apart(Swapping):
    """Runs that are trained by all-reduce from the second epoch on."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = 3
        self.before: Callable[[], object] = int
        """Called before each batch of the second partition."""

    def by(self, strategy: str) -> Run:
        return self.go({0: lambda run: run.swap_strategy(strategy)}, epochs=self.epochs)

    def _before(self, run: Run, job: int) -> None:
        super()._before(run, job)
        assert self.cluster.served is not None
        self.cluster.served.exchange = run.lifecycle.strategy.exchange
        if job:
            self.cluster.make = lambda partition: Dying(self.before if partition else int)

    def part(self) -> None:
        """Let no worker that comes from now on connect to one that is there."""
        assert self.cluster.served is not None
        self.cluster.served.secret = new_secret()


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Apart]:
    with nothing_left(tmp_path / "shared"):
        made = Apart()
        monkeypatch.setattr(epochs_module, "run_job", made.cluster.run_job)
        yield made
        made.close()


def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no worker reach another one."""
    monkeypatch.setattr(
        "tos_notebook.strategies.allreduce.peers.Address",
        lambda host, port: (host, 1),
    )


def by_star() -> dict[str, float]:
    """Return what an epoch by the parameter server adds, and two by gradients."""
    once, more = exact(1), by_gradients()
    return {name: once[name] + 2 * more[name] for name in once}


def test_workers_that_never_reach_each_other_train_through_the_driver(
    setting: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf(monkeypatch)
    run = setting.by("allreduce:auto")
    assert run.state == "finished"
    assert center(run.parts.training) == by_star()
    # As many steps of all workers in two epochs as steps of each in one.
    assert run.parts.training.parameters.version == 2 * ROWS // BATCH
    assert [e.samples for e in of(EpochFinished, setting.events)] == [ROWS] * 3
    assert [e.epoch for e in of(StrategySwapped, setting.events)] == [1, 1]
    assert not of(JobRestarted, setting.events)
    (note,) = (note for note in run.status.notes if "through the driver" in note)
    assert "from epoch 2 on, as with strategy='allreduce:star'" in note
    assert "on here cannot connect to that of partition 0 on here" in note
    assert run.lifecycle.strategy.algorithm == "star"  # type: ignore[attr-defined]


def test_an_algorithm_that_was_chosen_fails_with_advice(
    setting: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf(monkeypatch)
    with pytest.raises(ConnectError, match="or train with strategy='allreduce:star'"):
        setting.by("allreduce:ring")


def test_a_codec_that_is_set_while_the_detour_is_made_ready_is_kept(
    setting: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf(monkeypatch)
    method = swapping._method

    def slow(run: Lifecycle, strategy: Any) -> Any:
        if strategy.algorithm == "star":
            run.parts.training.change_settings(Command.SET, "", codec=as_codecs("bf16"))
        return method(run, strategy)

    monkeypatch.setattr(swapping, "_method", slow)
    run = setting.by("allreduce:auto")
    assert run.state == "finished"
    assert str(run.parts.training.settings.strategy.codec) == "bf16"


def test_a_codec_that_is_set_just_before_the_detour_is_made_is_kept(
    setting: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf(monkeypatch)
    make = swapping._swap

    def late(run: Lifecycle, *given: Any) -> Any:
        training = run.parts.training
        change = partial(training.change_settings, Command.SET, "", codec=as_codecs("bf16"))
        swap = make(run, *given)
        return replace(swap, before=change) if "star" in swap.detail else swap

    monkeypatch.setattr(swapping, "_swap", late)
    run = setting.by("allreduce:auto")
    assert run.state == "finished"
    assert run.parts.training.settings.strategy.algorithm == "star"
    assert str(run.parts.training.settings.strategy.codec) == "bf16"


def test_links_that_are_lost_in_an_epoch_cost_no_batch_and_no_bit(setting: Apart) -> None:
    setting.cluster.tries = 2
    dies = threading.Event()

    def before() -> None:
        version = setting.runs[-1].parts.training.parameters.version
        # The first epoch has made as many versions as batches, and one milestone follows.
        if not dies.is_set() and version > ROWS // BATCH:
            dies.set()
            setting.part()
            raise TransportError("The test has ended this worker.")

    setting.before = before
    run = setting.by("allreduce:auto")
    assert dies.is_set()
    assert run.state == "finished"
    assert center(run.parts.training) == by_star()
    assert [e.samples for e in of(EpochFinished, setting.events)] == [ROWS] * 3
    told: dict[Any, int] = {}
    for event in of(MilestoneCommitted, setting.events):
        told[event.epoch] = told.get(event.epoch, 0) + event.samples
    assert told == dict.fromkeys(range(3), ROWS)
    assert [e.strategy for e in of(StrategySwapped, setting.events)] == ["allreduce"] * 2
    assert any("through the driver" in note for note in run.status.notes)
