"""The short magics: which run they mean, what they ask of it, what they say."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.magics.conftest import Cells, Engine
from tos_notebook.chaos import Kill, Slow
from tos_notebook.errors import ConfigError, WorkerError
from tos_notebook.steering.links import LinkRate, LinkRates
from tos_notebook.steering.shards import ShardLoad
from tos_notebook.steering.source import source
from tos_notebook.strategies import AllReduce

LINE = "%tos_train --model program --data train"


@pytest.fixture
def runs(cells: Cells, engine: Engine) -> list[Any]:
    """Two runs, ``first``, which is called wide, and ``run``."""
    cells(f"{LINE} -o first --name wide")
    cells(LINE)
    return engine.runs


@pytest.mark.parametrize(
    ("line", "asked", "said"),
    [
        ("%tos_pause", "pause", "Asked run 2 to pause"),
        ("%tos_stop", "stop", "Run 2 is stopped. Its weights are kept"),
        ("%tos_repartition 4", 4, "Asked run 2 for 4 partitions"),
        ("%tos_combiner easgd", "easgd", "Asked run 2 for easgd"),
        (
            "%tos_set learning_rate=0.01 sync_interval=20",
            {"learning_rate": 0.01, "sync_interval": 20},
            "learning_rate=0.01, sync_interval=20",
        ),
        ("%tos_set sync=ssp:3", {"sync": "ssp:3"}, "sync=ssp:3, from"),
        (
            "%tos_strategy allreduce",
            ("allreduce", {}),
            "Asked run 2 for allreduce, from its next epoch on.",
        ),
        (
            "%tos_strategy ps --combiner fedavg --sync bsp --sync-interval 5 --codec int8",
            ("ps", {"combiner": "fedavg", "sync": "bsp", "sync_interval": 5, "codec": "int8"}),
            "Asked run 2 for ps, fedavg, bsp",
        ),
        (
            "%tos_set strategy=ps combiner=fedavg sync_interval=5",
            ("ps", {"combiner": "fedavg", "sync_interval": 5}),
            "strategy=ps, combiner=fedavg, sync_interval=5, from its next epoch on",
        ),
        (
            "%tos_chaos slow 5 --worker 1",
            (Slow(5, worker=1),),
            "CHAOS in run 2, from each worker's next milestone on: partition 1: 5 times slower.",
        ),
        (
            "%tos_chaos slow 1.5 --executor 0 --for-seconds 120",
            (Slow(1.5, executor="0", for_seconds=120.0),),
            "%tos_chaos off ends it",
        ),
        ("%tos_chaos kill --worker 1 --at 3", (Kill(worker=1, at=3),), "killed, at milestone 3"),
        ("%tos_chaos off", (), "Run 2 has no chaos"),
    ],
)
def test_the_newest_run_is_steered(
    cells: Cells, runs: list[Any], line: str, asked: Any, said: str
) -> None:
    assert said in cells(line)
    assert [run.asked for run in runs] == [[], [asked]]


def test_an_error_names_a_setting_as_it_was_typed(
    cells: Cells, runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> None:
        raise ConfigError("codec: expected one of none, fp16, int8; got 'nope'.")

    monkeypatch.setattr(type(runs[1]), "set", lambda self, **given: refuse(**given))
    assert "compression: expected one of" in cells.fails("%tos_set compression=nope")
    assert "codec: expected one of" in cells.fails("%tos_set codec=nope")


@pytest.mark.parametrize("name", ["first", "1", "run-1", "wide", "--run first", "--run wide"])
def test_a_run_is_chosen_by_variable_number_id_or_name(
    cells: Cells, runs: list[Any], name: str
) -> None:
    assert "Asked run 1 (wide) to pause" in cells(f"%tos_pause {name}")
    cells(f"%tos_stop {name}")
    assert "Run 1 (wide, run-1) is stopped" in cells(f"%tos_status {name}")
    assert [run.asked for run in runs] == [["pause", "stop"], []]


def test_settings_have_the_names_of_other_libraries_too(cells: Cells, runs: list[Any]) -> None:
    cells("%tos_set num_workers=4")
    assert "Asked run 2 for codec=int8" in cells("%tos_set compression=int8")
    assert [run.asked for run in runs] == [[], [4, {"codec": "int8"}]]


def test_a_module_is_not_offered_for_a_name_that_is_none(cells: Cells, runs: list[Any]) -> None:
    cells("import numpy as nop")
    assert "Did you mean" not in cells.fails("%tos_combiner nope")


def test_of_runs_of_one_name_the_newest_is_meant(cells: Cells, engine: Engine) -> None:
    cells(f"{LINE} -o a --name wide")
    cells(f"{LINE} -o b --name wide")
    cells("%tos_repartition 4 --run wide")
    assert [run.asked for run in engine.runs] == [[], [4]]


def test_the_variable_is_the_name_unless_it_is_the_default(cells: Cells, engine: Engine) -> None:
    for options in ("-o wide", "-o a --name 'very deep'", "-o run", ""):
        cells(f"{LINE} {options}")
    assert [run.name for run in engine.runs] == ["wide", "very deep", None, None]


def test_the_run_knows_which_magic_asked(cells: Cells, runs: list[Any]) -> None:
    found: list[str] = []
    runs[1].pause = lambda: found.append(source())
    runs[1].swap_combiner = lambda combiner: found.append(source())
    cells("%tos_pause")
    cells("%tos_set combiner=easgd")
    assert (found, source()) == (["%tos_pause", "%tos_set"], "Python")


def test_a_combiner_of_the_notebook(cells: Cells, runs: list[Any]) -> None:
    cells("mine = lambda center, update, push: center")
    cells("%tos_combiner mine")
    assert runs[1].asked == [cells.space["mine"]]


def test_a_strategy_of_the_notebook(cells: Cells, runs: list[Any]) -> None:
    cells("import tos_notebook as tos")
    cells("local = tos.strategies.AllReduce(of='parameters', every=10)")
    cells("%tos_strategy local")
    cells("%tos_set strategy=local")
    assert runs[1].asked == [(cells.space["local"], {})] * 2


def test_what_does_not_come_with_a_strategy_is_set_apart(cells: Cells, runs: list[Any]) -> None:
    output = cells.fails("%tos_set strategy=ps learning_rate=0.1")
    assert "%tos_set: learning_rate changes at the next milestone, and a strategy at" in output
    assert "in a separate line: %tos_set learning_rate=0.1" in output
    output = cells.fails("%tos_set strategy=ps colour=red")
    assert "%tos_set: unknown setting 'colour'. It sets strategy and combiner" in output
    assert runs[1].asked == []


def test_status_says_where_it_stands(cells: Cells, runs: list[Any]) -> None:
    output = cells("%tos_status")
    assert "Run 2 (run-2) is running: epoch 2 of 5, 3.0 s" in output
    assert "34 milestones, 1,200 samples, 432 samples/s, loss 0.25, staleness 1.5" in output
    assert "sync interval 10, sync asp, codec fp32, combiner DynSGD(exponent=1.0)" in output
    assert "learning rate 0.1" in output


def test_status_says_what_waits_for_the_epoch_who_was_lost_and_what_links_carry(
    cells: Cells, runs: list[Any]
) -> None:
    run = runs[1]
    run.pending = ("Swap strategy waits for the end of the epoch: allreduce (of=gradients)",)
    run.lost = ("Partition 1 lost its worker.",)
    run.links = LinkRates((LinkRate(0, 1, 12_300_000.0), LinkRate(-1, 0, 900.0)), 5)
    output = cells("%tos_status")
    for line in (*run.pending, *run.lost):
        assert f"  {line}\n" in output
    assert "  links: 0 -> 1 12.3 MB/s, driver -> 0 900 B/s, and 5 more\n" in output


@pytest.fixture
def together(cells: Cells, engine: Engine) -> Any:
    """A run whose workers make each step together."""
    cells(f"{LINE} --strategy allreduce:star")
    (run,) = engine.runs
    run.commands, run.staleness = AllReduce.commands, math.nan
    return run


def test_status_of_steps_made_together_says_nothing_of_what_does_not_apply(
    cells: Cells, together: Any
) -> None:
    output = cells("%tos_status")
    assert "loss 0.25\n" in output
    assert "  strategy allreduce (of gradients, algorithm star), batch size 100" in output
    for text in ("stale", "combiner", "sync bsp", "None"):
        assert text not in output


def test_status_calls_an_exchange_at_the_end_of_an_epoch_so(cells: Cells, engine: Engine) -> None:
    """`tos.federated` sets more batches than a partition has, which no reader takes for that."""
    cells(f"{LINE} --sync-interval 1000000")
    assert "sync interval whole epoch" in cells("%tos_status")


def test_all_settings_can_be_changed_in_one_line(cells: Cells, runs: list[Any]) -> None:
    output = cells("%tos_set learning_rate=0.5 combiner=easgd partitions=4 sync=sync")
    assert runs[1].asked == [{"learning_rate": 0.5, "sync": "sync"}, "easgd", 4]
    assert [line.partition(" for ")[2] for line in output.splitlines()] == [
        "learning_rate=0.5, sync=sync, from each worker's next milestone on.",
        "combiner=easgd, from each worker's next milestone on.",
        "partitions=4, from its next epoch on.",
    ]


def test_one_wrong_setting_changes_none(cells: Cells, runs: list[Any]) -> None:
    assert "partitions: expected a whole number" in cells.fails(
        "%tos_set learning_rate=0.5 partitions=many"
    )
    assert "Did you mean combiner?" in cells.fails("%tos_set combine=easgd learning_rate=0.5")
    assert runs[1].asked == []


def test_status_has_a_line_for_each_shard(cells: Cells, runs: list[Any]) -> None:
    runs[-1].shards = (ShardLoad(1, "node", 0.5, 0, 1e6, 2e6, 3.0),)
    assert "shard 1 on node: 0.50 cores, 3.0 merges/s, 1 MB/s in" in cells("%tos_status")


@pytest.mark.usefixtures("runs")
def test_shards_are_said_to_come_with_a_strategy(cells: Cells) -> None:
    output = cells.fails("%tos_set shards=2")
    assert "run.swap_strategy('ps:shards=2'), or %tos_strategy ps:shards=2" in output


def test_status_says_loudly_that_there_is_chaos(cells: Cells, runs: list[Any]) -> None:
    assert "CHAOS" not in cells("%tos_status")
    cells("%tos_chaos slow 5 --worker 1")
    assert "  CHAOS is on: partition 1: 5 times slower." in cells("%tos_status")
    cells("%tos_chaos off")
    assert "CHAOS" not in cells("%tos_status")


def test_status_says_what_the_run_waits_for(cells: Cells, runs: list[Any]) -> None:
    runs[1].waits_for = ("Nothing has come since 01:02:03: the run waits for a worker.",)
    assert "  Nothing has come since 01:02:03: the run waits for a worker." in cells("%tos_status")


def test_status_says_what_went_wrong_beside_the_training(cells: Cells, runs: list[Any]) -> None:
    runs[1].notes = ("CSVLogger.on_epoch_end raised OSError: disk full.",)
    assert "  CSVLogger.on_epoch_end raised OSError: disk full." in cells("%tos_status")


def test_status_counts_the_rows_that_were_left_out(cells: Cells, runs: list[Any]) -> None:
    runs[1].rows_skipped = 3
    assert "  3 rows of the data left out; run.skipped has which" in cells("%tos_status")


def test_status_says_what_would_train_more_rows_a_second(cells: Cells, runs: list[Any]) -> None:
    runs[1].advice = "Exchange takes 62 % of each step."
    assert "  Exchange takes 62 % of each step.\n" in cells("%tos_status")
    runs[1].advice = None
    assert "None" not in cells("%tos_status")


def test_a_view_is_shown_of_the_run_that_is_named(
    cells: Cells, engine: Engine, runs: list[Any]
) -> None:
    cells("%tos_view")
    cells("%tos_view --run 1")
    assert engine.shown[2:] == [runs[1], runs[0]]


def test_status_of_a_failed_run_says_why(cells: Cells, runs: list[Any]) -> None:
    runs[1].end("failed", WorkerError("ValueError: boom"))
    assert "WorkerError: ValueError: boom" in cells("%tos_status")


@pytest.mark.parametrize(
    "line", ["%tos_strategy nonsense", "%tos_strategy ps --every 4", "%tos_strategy bar"]
)
def test_what_is_far_from_all_names_is_not_said_to_be_meant(
    cells: Cells, runs: list[Any], line: str
) -> None:
    cells.space["open"] = open
    # Near, and no strategy.
    cells.space["spark"] = object()
    assert "Did you mean" not in cells.fails(line)


def test_runs_are_compared_by_variable_or_number(
    cells: Cells, runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tos_notebook.telemetry.compare.compare", lambda *given: given)
    cells("made = %tos_compare first 2")
    assert cells.space["made"] == tuple(runs)


def test_runs_are_a_table(cells: Cells, runs: list[Any]) -> None:
    cells("table = %tos_runs")
    table = cells.space["table"]
    assert table.index.tolist() == [1, 2]
    assert table["name"].tolist() == ["wide", ""]
    assert table["state"].tolist() == ["running", "running"]


def test_the_table_of_runs_has_the_validation_in_short_numbers(
    cells: Cells, runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"loss": 0.682055, "validation": {"loss": 0.358712, "accuracy": 0.8612}}
    now = SimpleNamespace(**vars(runs[1].status) | values | {"elapsed": 12.34567})
    monkeypatch.setattr(type(runs[1]), "status", property(lambda run: now))
    cells("table = %tos_runs")
    row = cells.space["table"].loc[2]
    assert (row["loss"], row["val_loss"], row["val_accuracy"]) == (0.6821, 0.3587, 0.8612)
    assert row["elapsed"] == 12.3


def test_chaos_is_off_on_a_run_that_has_ended(cells: Cells, runs: list[Any]) -> None:
    runs[1].state = "failed"
    runs[1]._done.set()
    assert "Run 2 is failed, and no longer has chaos." in cells("%tos_chaos off")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("%tos_unpause", "InvalidTransition: Cannot unpause while the run is running"),
        ("%tos_resume", "expected URI (a saved run's folder; %tos_unpause ends a pause), such as"),
        ("%tos_pause --run 7", "or number, got '7'. There are runs 1 (wide), 2; %tos_runs"),
        ("%tos_pause --rum 7", "Did you mean --run?"),
        ("%tos_pause now", "Expected a run's variable, name or number, got 'now'"),
        ("%tos_pause 1 2", "unrecognized arguments: 2"),
        ("%tos_repartition", "expected N (of the next epochs), such as %tos_repartition 4."),
        ("%tos_strategy", "a variable that holds a strategy), such as %tos_strategy allreduce."),
        ("%tos_strategy --sync bsp", "such as %tos_strategy allreduce."),
        ("%tos_strategy mien", "got 'mien'. No variable of this notebook has that name."),
        ("%tos_strategy allreduc", "Did you mean allreduce? No variable of this notebook has that"),
        ("%tos_combiner", "such as %tos_combiner easgd."),
        ("%tos_combiner nmups", "No variable of this notebook has that name."),
        ("%tos_set", "such as %tos_set learning_rate=0.01 sync_interval=20."),
        ("%tos_set lr=1", "unknown setting 'lr'. Did you mean learning_rate?"),
        ("%tos_repartition many", "expected a whole number, got 'many'"),
        ("%tos_set learning-rate=1", "Did you mean learning_rate?"),
        ("%tos_set learning_rate = 1", "expected name=value without spaces"),
        ("%tos_set sync=asp sync=bsp", "%tos_set: sync: expected one value, got asp and bsp."),
        ("%tos_set a=1 a=1", "%tos_set: a: expected one value, got 1 and 1. For help: %tos_set?"),
        ("%tos_set strategy=ps codec=int8 codec=fp32", "codec: expected one value, got int8 and"),
        ("%tos_set sync_interval=1.5", "sync_interval: expected a whole number, got '1.5'"),
        ("%tos_runs --all", "It has no options"),
        ("%tos_compare", "such as %tos_compare first second."),
        ("%tos_compare first thrdi", "got 'thrdi'. There are runs 1"),
        (
            "%tos_chaos",
            "slow, pause or kill; off ends what is in force), such as %tos_chaos slow 5",
        ),
        ("%tos_chaos slwo 5", "Did you mean slow?"),
        ("%tos_chaos slow", "expected how many times slower, such as slow 5; got none"),
        ("%tos_chaos slow much", "expected a number, got 'much'"),
        ("%tos_chaos slow 0.5", "factor: expected 1 to 1000, got 0.5"),
        ("%tos_chaos slow 5 --partition 1", "unknown option --partition"),
        ("%tos_chaos kill --wroker 1", "Did you mean --worker?"),
        ("%tos_chaos kill --worker 1 --executor 0", "got worker and executor"),
        ("%tos_chaos off --worker 1", "expected nothing else, got worker"),
    ],
)
def test_mistakes_are_one_message(cells: Cells, runs: list[Any], line: str, text: str) -> None:
    output = cells.fails(line)
    assert text in output
    assert len(output.strip().splitlines()) == 1


@pytest.mark.parametrize("line", ["%tos_status", "%tos_stop", "%tos_set sync_interval=1"])
def test_without_a_run_it_says_how_to_start_one(cells: Cells, engine: Engine, line: str) -> None:
    assert "Start one with %%tos_train" in cells.fails(line)


def test_no_runs_to_list(cells: Cells, engine: Engine) -> None:
    assert "No run was started yet" in cells("%tos_runs")


# -- defaults ---------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def defaults(shell: Any) -> Any:
    """Leave the defaults as they were."""
    magics = shell.magics_manager.registry["TosMagics"]
    before = {name: getattr(magics, name) for name in magics.trait_names(config=True)}
    yield magics
    for name, value in before.items():
        setattr(magics, name, value)


def test_defaults_are_shown_and_used(cells: Cells, engine: Engine) -> None:
    assert "epochs            1 " in cells("%tos_config")
    output = cells("%tos_config epochs=5 shuffle=false repartition_every=2 data=train")
    assert len(output.splitlines()) == 4
    cells("%config TosMagics.batch_size = 7")
    cells("%tos_train --model program --shuffle --sync-interval 3")
    session = engine.sessions[0]
    assert session.epochs == 5
    assert session.data is cells.space["train"]
    assert session.started["repartition_every"] == 2
    assert session.started["shuffle"] is True
    assert (session.options["batch_size"], session.options["sync_interval"]) == (7, 3)
    cells("%tos_config repartition_every=None")


def test_a_default_may_be_an_object_of_the_notebook(cells: Cells, defaults: Any) -> None:
    cells("mine = lambda center, update, push: center")
    cells("import tos_notebook as tos")
    cells("local = tos.strategies.AllReduce(of='parameters', every=10)")
    assert "'local'" in cells("%tos_config strategy=local")
    assert "'mine'" in cells("%tos_config strategy=ps combiner=mine")
    assert "None" in cells("%tos_config combiner=None")
    assert "'500'" in cells("%tos_config checkpoint_every=500")


def test_rows_may_keep_their_partitions_by_default(
    cells: Cells, engine: Engine, defaults: Any
) -> None:
    assert "'partitions'" in cells("%tos_config shuffle=partitions")
    cells("%tos_train --model program --data train")
    assert engine.sessions[0].started["shuffle"] == "partitions"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "%tos_config batch_size=9 shuffle=rows",
            "%tos_config: shuffle: expected True, False or 'partitions', got 'rows'.",
        ),
        ("%tos_config epoch=5", "Did you mean epochs?"),
        ("%tos_config batch_size=8 batch_size=9", "batch_size: expected one value, got 8 and 9."),
        (
            "%tos_config batch_size=9 epochs=many",
            "%tos_config: epochs: expected a whole number of at least 1, got 'many'",
        ),
        (
            "%tos_config batch_size=9 epochs=0",
            "%tos_config: epochs: expected a whole number of at least 1, got 0",
        ),
        (
            "%tos_config batch_size=9 non_finite=ignore",
            "%tos_config: non_finite: expected one of raise, skip; got 'ignore'.",
        ),
        ("%tos_config num_workers=none", "partitions: expected a whole number of at least 1"),
        ("%tos_config batch_size=9 strategy=allredcue", "Did you mean allreduce?"),
        ("%tos_config strategy=nonsense", "%tos_config: strategy: expected one of ps, allreduce"),
        ("%tos_config batch_size=9 combiner=easdg", "Did you mean easgd?"),
        ("%tos_config batch_size=9 sync=sometimes", "sync: expected 'asp'"),
        ("%tos_config batch_size=9 codec=int3", "Did you mean int"),
        ("%tos_config batch_size=9 stall_timeout=-1", "stall_timeout: expected a finite number"),
        ("%tos_config batch_size=9 participation=5", "participation: expected a number above 0"),
        ("%tos_config batch_size=9 checkpoint_every=soon", "checkpoint_every: expected a time"),
        ("%tos_config epochs", "expected name=value"),
    ],
)
def test_a_wrong_default_changes_none(cells: Cells, defaults: Any, line: str, text: str) -> None:
    output = cells.fails(line)
    assert text in output
    assert len(output.strip().splitlines()) == 1
    assert (defaults.batch_size, defaults.epochs) == (100, 1)
    assert (defaults.strategy, defaults.combiner) == ("ps", None)
