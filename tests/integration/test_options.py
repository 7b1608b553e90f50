"""An option of the session counts for one run; a resumed run does otherwise and counts exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import captured_classifier, counter, new_counter
from tests.support.watching import Watch
from tos_notebook.errors import ConfigError, InvalidTransition
from tos_notebook.events import MilestoneCommitted, Repartitioned, StrategySwapped

X = np.arange(1.0, 401)
LIMIT = 120.0
ADDS = tos.combiners.get("slowmo", k=1, lr=1.0, momentum=0.0)
"""Adds each change, as downpour does, and keeps a state for it."""

Sessions = Callable[..., tos.TrainingSession]


def total(run: tos.Run) -> list[float]:
    values: list[float] = run.parameters()["total"].tolist()
    return values


def stopped(session: tos.TrainingSession, epochs: int, **options: Any) -> str:
    """Return where a run is saved that was stopped in its first epoch."""
    watch = Watch()
    run = session.start((X,), epochs, checkpoint_every=5, sinks=[watch], **options)
    run.chaos(tos.chaos.Pause(0.02, any=1))
    watch.wait_for(MilestoneCommitted, 20)
    run.stop()
    session.close()
    assert run.uri is not None
    return run.uri


def test_an_option_counts_for_one_run_and_the_next_has_the_sessions_own(train: Sessions) -> None:
    session = train(counter(), combiner="downpour", batch_size=50, sync_interval=2)
    with pytest.raises(ConfigError, match="Combiner dcasgd: expected sync_interval 1, got 2"):
        session.combiner = "dcasgd"
    before = session.run((X,)).settings
    once = session.run((X,), batch_size=10, sync_interval=1, sync="ssp:2", combiner=ADDS)
    found = once.settings
    assert (found.batch_size, found.sync_interval, found.sync) == (10, 1, "ssp:2")
    assert repr(found.combiner) == repr(ADDS)
    assert once.history["samples"].max() == 10
    after = session.run((X,))
    assert repr(after.settings) == repr(before)
    assert total(after) == [3 * X.sum(), 3 * len(X)]


def test_one_run_has_another_strategy_folder_and_weights_of_classes(
    train: Sessions, tmp_path: Path, digits: tuple[np.ndarray, ...]
) -> None:
    x, y, _, _ = digits
    program = captured_classifier()
    session = train(program, combiner="easgd", batch_size=100)
    first = program.read().copy()
    once = session.start(
        (x, y),
        strategy="allreduce",
        class_weight=dict.fromkeys(range(10), 0.0),
        checkpoint_dir=str(tmp_path),
        wait=True,
    )
    assert once.settings.strategy == "allreduce"
    assert once.uri is not None
    assert Path(once.uri.removeprefix("file:")).parent == tmp_path
    np.testing.assert_array_equal(program.read(), first)
    again = session.run((x, y))
    assert (again.settings.strategy, again.settings.combiner.name) == ("ps", "easgd")
    assert again.uri is None
    assert (program.read() != first).any()


def test_a_resumed_run_has_other_settings_and_partitions_and_every_row_counts_once(
    train: Sessions, spark_context: Any, tmp_path: Path
) -> None:
    uri = stopped(
        train(
            new_counter(),
            combiner=ADDS,
            batch_size=5,
            sync_interval=1,
            sync="bsp",
            checkpoint_dir=str(tmp_path),
        ),
        3,
        partitions=2,
    )
    watch = Watch()
    with pytest.raises(ConfigError, match="Combiner dcasgd: expected sync_interval 1, got 5"):
        tos.resume(uri, spark=spark_context, combiner="dcasgd", sync_interval=5)
    run = tos.resume(
        uri,
        spark=spark_context,
        combiner="downpour",
        sync="async",
        sync_interval=3,
        num_workers=1,
        non_finite="skip",
        sinks=[watch],
        wait=True,
    )
    found = run.settings
    assert (found.combiner.name, found.sync, found.sync_interval) == ("downpour", "asp", 3)
    assert [(e.epoch, e.partitions) for e in watch.of(Repartitioned)] == [(1, 1)]
    assert run.history.groupby("epoch")["samples"].sum().tolist() == [len(X)] * 3
    assert total(run) == [3 * X.sum(), 3 * len(X)]
    asked = [(row["command"], row["state"]) for row in run.events][-3:]
    assert {("set", "in force"), ("swap combiner", "in force")} <= {*asked}


def test_a_resumed_run_has_another_strategy_from_the_next_epoch_on(
    train: Sessions, spark_context: Any, tmp_path: Path
) -> None:
    uri = stopped(
        train(
            new_counter(),
            combiner="downpour",
            batch_size=5,
            sync_interval=1,
            checkpoint_dir=str(tmp_path),
        ),
        2,
        partitions=1,
    )
    watch = Watch()
    run = tos.resume(uri, spark=spark_context, strategy="ps:shards=1", sinks=[watch])
    run.wait(LIMIT)
    assert [(e.epoch, run.settings.own["shards"]) for e in watch.of(StrategySwapped)] == [(1, 1)]
    assert run.settings.combiner.name == "downpour"
    assert total(run) == [2 * X.sum(), 2 * len(X)]


def test_what_cannot_come_leaves_the_run_as_it_was(
    train: Sessions, spark_context: Any, tmp_path: Path
) -> None:
    """And a run with its parameters is started as the message says."""
    session = train(new_counter(), combiner="downpour", batch_size=5, checkpoint_dir=str(tmp_path))
    uri = stopped(session, 1, partitions=1, sync_interval=1)
    before = sorted(Path(uri.removeprefix("file:")).glob("checkpoint-*"))
    with pytest.raises(InvalidTransition, match="it trains its last epoch"):
        tos.resume(uri, spark=spark_context, strategy="ps:shards=1")
    with pytest.raises(ConfigError, match=r"^optimizer_state: expected 'keep', since the"):
        tos.resume(uri, spark=spark_context, optimizer_state="reset")
    assert sorted(Path(uri.removeprefix("file:")).glob("checkpoint-*")) == before
    model = new_counter()
    tos.resume(uri, program=model, spark=spark_context).stop()
    counted = model.layout.tensors(model.read())["total"].tolist()
    assert 0 < counted[1] < len(X)
    assert total(tos.resume(uri, spark=spark_context).wait(LIMIT)) == [X.sum(), len(X)]
    more = train(model, combiner="downpour", batch_size=8).run((X,))
    assert total(more) == [counted[0] + X.sum(), counted[1] + len(X)]
