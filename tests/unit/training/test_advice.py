"""What a run advises: only where it is known, brings a fifth more rows, and without flapping."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.telemetry.samples import milestone
from tos_notebook.codecs.pair import PLAIN
from tos_notebook.combiners import Downpour, Median
from tos_notebook.coordination.settings import Settings
from tos_notebook.events import CommandAccepted
from tos_notebook.steering.sync import as_sync
from tos_notebook.strategies import AllReduce, ParameterServer, TreeAggregate
from tos_notebook.telemetry.history import History
from tos_notebook.theory.advice import WorkerTimes, in_shards
from tos_notebook.training import predicted
from tos_notebook.training.advice import LEAST, RunAdvisor


class Facts:
    """A run of which a test tells milestones; each worker takes as long as it says."""

    def __init__(
        self,
        strategy: Any = None,
        sync: str = "asp",
        sync_interval: int = 10,
        samples: int | None = None,
        nbytes: int = 800_000,
        slots: int = 2,
        partitions: int = 2,
        combiner: Any = None,
        tables: tuple[Any, ...] = (),
    ) -> None:
        self.strategy = ParameterServer() if strategy is None else strategy
        self.history = History()
        together = isinstance(self.strategy, AllReduce | TreeAggregate)
        self.training = SimpleNamespace(settings=None, algorithm=None)
        own = self.strategy.settings(None if together else combiner or Downpour(), PLAIN)
        self.training.settings = Settings(
            own, sync_interval, self.strategy.default_sync if together else as_sync(sync)
        )
        self.program = SimpleNamespace(layout=SimpleNamespace(nbytes=nbytes, tables=tables))
        self.source = SimpleNamespace(samples=samples, partitions=partitions)
        self.plan = SimpleNamespace(slots=slots)
        self.task = SimpleNamespace(host="driver", plan=SimpleNamespace(batch_size=10))
        self.advisor = RunAdvisor(self)  # type: ignore[arg-type]
        self._time = 0.0

    def set(self, **changes: Any) -> None:
        self.training.settings = self.training.settings.changed(**changes)
        named = {name: str(value) for name, value in changes.items()}
        self.history(CommandAccepted(self._time, "set", "", named))

    def tell(self, milestones: int, *workers: dict[str, Any], **common: Any) -> None:
        """Tell so many milestones, of workers in turns."""
        workers = workers or ({}, {})
        for number in range(milestones):
            partition = number % len(workers)
            times = {"compute": 0.1, "exchange": 0.0, "wait": 0.0} | workers[partition]
            took = times["compute"] + times["exchange"] + times["wait"]
            self._time += took / len(workers)
            known = {"host": str(partition), **times, **common}
            self.history(milestone(self._time, partition=partition, **known))

    def advice(self) -> str | None:
        return self.advisor.advice(self.strategy, self.source)  # type: ignore[arg-type]

    def theory(self) -> Any:
        return predicted.theory(self, self.strategy)  # type: ignore[arg-type]


def half(share: float) -> dict[str, float]:
    """A worker that exchanges for this share of its time."""
    return {"compute": 1 - share, "exchange": share}


def test_a_long_exchange_advises_to_exchange_half_as_often_and_says_what_it_brings() -> None:
    run = Facts()
    run.tell(40, half(0.62), half(0.62))
    assert run.advice() == (
        "Exchange takes 62 % of each step. With sync_interval=20 the same workers would train "
        "about 1.4 times as many rows a second."
    )


def test_nothing_is_advised_before_enough_milestones() -> None:
    run = Facts()
    run.tell(LEAST - 1, half(0.62), half(0.62))
    assert run.advice() is None
    run.tell(1, half(0.62), half(0.62))
    assert run.advice() is not None


def test_a_worker_of_which_little_is_known_does_not_count() -> None:
    run = Facts()
    run.tell(LEAST, half(0.0))
    run.tell(2, half(0.99), half(0.99))
    assert run.advice() is None


@pytest.mark.parametrize(("share", "advised"), [(0.32, False), (0.35, True)])
def test_a_gain_below_a_fifth_is_not_worth_a_word(share: float, advised: bool) -> None:
    """To halve a share e of exchanges brings 2 / (2 - e): a fifth more at one third."""
    run = Facts()
    run.tell(60, half(share), half(share))
    assert (run.advice() is not None) == advised


def test_an_advice_stays_in_the_same_words_while_it_holds_and_leaves_for_good() -> None:
    run = Facts()
    said = []
    for share in (0.32, 0.35, 0.32, 0.36, 0.31):
        run.tell(500, half(share), half(share))
        said.append(run.advice())
    assert said[0] is None
    assert said[1] is not None
    assert said[1:] == [said[1]] * 4
    run.tell(500, half(0.1), half(0.1))
    assert run.advice() is None
    run.tell(500, half(0.32), half(0.32))
    assert run.advice() is None


def test_looking_twice_says_the_same() -> None:
    run = Facts()
    run.tell(40, half(0.62), half(0.62))
    first = run.advice()
    run.tell(LEAST - 1, half(0.0), half(0.0))
    assert run.advice() == first


def test_other_settings_end_an_advice_and_need_facts_of_their_own() -> None:
    run = Facts()
    run.tell(40, half(0.62), half(0.62))
    assert run.advice() is not None
    run.set(sync_interval=20)
    assert run.advice() is None
    run.tell(LEAST, half(0.5), half(0.5), steps=20)
    found = run.advice()
    assert found is not None
    assert "sync_interval=40" in found


def test_a_schedule_of_the_learning_rate_changes_no_advice() -> None:
    run = Facts()
    run.tell(40, half(0.62), half(0.62))
    first = run.advice()
    run.set(learning_rate=0.1)
    assert run.advice() == first is not None


def test_an_epoch_that_is_shorter_than_the_interval_cannot_exchange_less() -> None:
    """200 rows in 2 partitions are 10 batches of 10: exchanges end each epoch anyhow."""
    run = Facts(samples=200)
    run.tell(40, half(0.62), half(0.62), host="a")
    assert run.advice() is None


def test_a_long_wait_for_others_advises_not_to_wait() -> None:
    run = Facts(sync="bsp")
    run.tell(60, {"compute": 0.2, "wait": 0.8}, {"compute": 1.0})
    found = run.advice()
    assert found is not None
    assert found.startswith("Waiting for other workers takes 40 % of each step. With sync='asp'")
    assert "about 3.0 times as many rows" in found


def test_where_all_step_together_another_strategy_is_advised_against_waiting() -> None:
    run = Facts(AllReduce())
    run.tell(60, {"compute": 0.2, "wait": 0.8}, {"compute": 1.0})
    assert "With strategy='ps' the same workers" in str(run.advice())


def test_asynchronous_workers_are_never_told_to_stop_waiting() -> None:
    run = Facts()
    run.tell(60, {"compute": 0.2, "wait": 0.8}, {"compute": 0.2, "wait": 0.8})
    assert run.advice() is None


@pytest.mark.parametrize(("hosts", "advised"), [(("a", "b"), True), (("a", "a"), False)])
def test_a_ring_is_advised_between_hosts(hosts: tuple[str, str], advised: bool) -> None:
    run = Facts(AllReduce(algorithm="star"), nbytes=100_000_000)
    workers = [{**half(0.9), "host": host} for host in hosts]
    run.tell(60, *workers, workers=2)
    assert ("strategy='allreduce:ring'" in str(run.advice())) == advised


def test_gradients_that_take_long_to_exchange_advise_to_average_parameters() -> None:
    """An exchange in ten batches: 1 / (0.4 + 0.06)."""
    run = Facts(AllReduce(), sync_interval=1)
    run.tell(60, half(0.6), half(0.6), workers=2)
    assert run.advice() == (
        "Exchange takes 60 % of each step. With strategy='allreduce:parameters/10' the same "
        "workers would train about 2.2 times as many rows a second."
    )
    short = Facts(AllReduce(), sync_interval=1, samples=100)
    short.tell(60, half(0.6), half(0.6), workers=2)
    assert short.advice() is None


def test_a_parameter_server_whose_link_is_the_limit_advises_to_leave_the_driver_out() -> None:
    """8 workers fill the link: Pβ is an 8th of a step, and the ring takes 7/4 of it."""
    run = Facts(nbytes=100_000_000)
    run.tell(160, *({**half(0.9), "host": str(n)} for n in range(8)), workers=8)
    found = str(run.advice())
    assert found.startswith("Exchange takes 90 % of each step. With strategy='allreduce:param")
    assert "about 3.0 times" in found


def test_no_strategy_that_sends_whole_tables_is_advised_where_rows_fill_the_link() -> None:
    """The same, but with a 500th of the bytes: all-reduce would send all of them."""
    run = Facts(nbytes=100_000_000, tables=("users",))
    few = {"bytes_up": 200_000, "bytes_down": 200_000}
    run.tell(160, *({**half(0.9), "host": str(n)} for n in range(8)), workers=8, **few)
    assert "allreduce" not in str(run.advice())


def _apart(run: Facts, count: int, share: float, **common: Any) -> str:
    """Let so many workers on hosts of their own exchange for a share of their time."""
    run.tell(20 * count, *({**half(share), "host": str(n)} for n in range(count)), **common)
    return str(run.advice())


def _full(slots: int) -> Facts:
    """Return a run whose driver's link is full, of eight workers of which one is slow."""
    run = Facts(nbytes=100_000_000, samples=80, partitions=8, slots=slots)
    others = ({**half(0.9), "host": str(n)} for n in range(7))
    run.tell(160, *others, {"compute": 2.0, "exchange": 0.9, "host": "7"}, workers=8)
    return run


@pytest.mark.parametrize(("slots", "said"), [(16, "' the"), (9, "' and 2 more slots the")])
def test_a_full_link_advises_shards_where_to_wait_for_a_slow_worker_would_not_pay(
    slots: int, said: str
) -> None:
    """An epoch is shorter than the interval, so that it cannot exchange less."""
    found = str(_full(slots).advice())
    assert "% of each step. The driver's link is busy for 81 % of the time. With" in found
    assert f"strategy='ps:shards=3{said} same workers would train about 1.7 times" in found


@pytest.mark.parametrize(
    ("count", "share", "wanted"), [(4, 1.0, 4), (8, 0.9, 6), (4, 0.7, 2), (16, 0.2, 0)]
)
def test_as_many_shards_are_advised_as_let_workers_exchange_freely(
    count: int, share: float, wanted: int
) -> None:
    workers = count * [WorkerTimes(100, 1 - share, share, 0.0)]
    shards, change = in_shards(workers, 0)
    if wanted:
        assert shards == pytest.approx(wanted, abs=1)
        assert 1.2 < change.gain <= shards
        more, then = in_shards(workers, shards)
        assert more >= shards
        assert then.gain >= 1
    else:
        assert change.gain < 1.2


def test_the_gain_is_what_was_measured_over_slow_links() -> None:
    """4 workers, 5 MB at 200 Mb/s: 3.60 pushes/s with the driver, 5.60 with 2 shards, 7.27 with 4.

    Each computes for 0.2 s. See `benchmarks.scale.predictions`.
    """
    workers = 4 * [WorkerTimes(1, 0.2, 4 / 3.6 - 0.2, 0.0)]
    wanted, change = in_shards(workers, 0)
    assert wanted in (3, 4)
    assert 5.6 / 3.6 < change.gain < 1.1 * 7.27 / 3.6


def test_shards_are_never_advised_on_one_host_or_to_a_combiner_of_whole_parameters() -> None:
    run = Facts(samples=40, partitions=4)
    run.tell(80, *({**half(0.95), "host": "a"} for n in range(4)), workers=4)
    assert run.advice() is None
    whole = Facts(samples=40, partitions=4, combiner=Median())
    assert "shards" not in _apart(whole, 4, 0.95, workers=4)


def test_advice_follows_a_swap_to_the_driver() -> None:
    run = Facts(AllReduce(), sync_interval=1, nbytes=100_000_000)
    run.tell(40, *({**half(0.9), "host": str(n)} for n in range(4)), steps=1, workers=4)
    run.strategy = AllReduce(algorithm="star")
    assert "With strategy='allreduce:" in str(run.advice())
    assert "parameters" not in str(run.advice())


def test_a_slow_worker_or_partitions_that_wait_speak_against_steps_together() -> None:
    for slow, at_once in ((2.0, 8), (0.1, 4)):
        run = Facts(nbytes=100_000_000)
        others = ({**half(0.9), "host": str(n)} for n in range(7))
        run.tell(160, *others, {"compute": slow, "exchange": 0.9, "host": "7"}, workers=at_once)
        assert "sync_interval=20" in str(run.advice())


@pytest.mark.parametrize(("cores", "advised"), [(1, False), (4, True)])
@pytest.mark.parametrize("place", [{"executor": "driver"}, {"host": "driver"}])
def test_who_does_not_wait_computes_only_where_a_core_is_free(
    place: dict[str, str], cores: int, advised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four workers that compute in turns already take one core."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(cores))
    run = Facts(AllReduce(), sync_interval=1)
    run.tell(80, *({"compute": 0.25, "wait": 0.75} for _ in range(4)), workers=4, **place)
    assert ("strategy='ps'" in str(run.advice())) == advised
    found = run.theory().loc["rows a second by ps asp", "predicted"]
    now = run.theory().loc["rows a second", "measured"]
    assert (found > 1.2 * now) == advised


@pytest.mark.parametrize("busy", [0.0, 1.0])
def test_times_of_zero_advise_nothing(busy: float) -> None:
    run = Facts(AllReduce(algorithm="star"))
    run.tell(60, {"compute": busy}, {"compute": busy}, steps=0, samples=0)
    assert run.advice() is None
    run.theory()


# -- predictions beside measurements ---------------------------------------------------------


def test_theory_stands_beside_what_was_measured() -> None:
    run = Facts()
    run.tell(60, half(0.5), half(0.5), staleness=3, workers=4, steps=10, samples=100)
    found = run.theory()
    assert found.columns.tolist() == ["predicted", "measured", "meaning"]
    assert found.loc["mean staleness", ["predicted", "measured"]].tolist() == [3, 3]
    assert found.loc["implicit momentum", "predicted"] == 0.75
    assert found.loc["compute (ms)", ["predicted", "measured"]].tolist() == pytest.approx([50, 50])
    assert found.loc["exchange (ms)", "measured"] == pytest.approx(50)
    assert found.loc["rows a second", "measured"] == pytest.approx(400, rel=0.01)
    assert found.loc["driver's link (MB/s)", "measured"] == pytest.approx(4 * 16 / 1e6, rel=0.01)
    assert found.loc["saturating workers", "predicted"] > 4
    assert "stable curvature" not in found.index
    run.set(learning_rate=0.1)
    assert "stable curvature" in run.theory().index


def test_times_are_of_a_step_where_a_milestone_is_of_several() -> None:
    run = Facts(AllReduce(algorithm="ring"), sync_interval=1)
    run.tell(60, half(0.5), half(0.5), steps=10, samples=100, workers=2)
    found = run.theory()
    assert found.loc["compute (ms)", ["predicted", "measured"]].tolist() == pytest.approx([50, 50])
    assert found.loc["exchange (ms)", "measured"] == pytest.approx(50)


def test_what_other_strategies_would_train_stands_below() -> None:
    run = Facts(AllReduce(algorithm="ring"), sync_interval=1)
    run.tell(60, half(0.5), half(0.5), steps=10, samples=100, workers=2)
    found = run.theory()
    others = found[found.index.str.startswith("rows a second by ")]
    assert [*others.index.str.removeprefix("rows a second by ")] == [
        *("ps asp", "ps:shards=2", "ps:shards=4", "ps bsp"),
        *("allreduce:star", "allreduce:direct", "allreduce:halving"),
        *("allreduce:two_level", "allreduce:parameters/10"),
    ]
    assert others["measured"].isna().all()
    assert others.loc["rows a second by ps asp", "meaning"].endswith("after each 10 batches")
    assert (
        others.loc["rows a second by allreduce:parameters/10", "predicted"]
        > found.loc["rows a second", "predicted"]
        > others.loc["rows a second by allreduce:star", "predicted"]
    )


def test_predictions_are_for_the_algorithm_that_auto_has_chosen() -> None:
    run = Facts(AllReduce(), sync_interval=1)
    run.tell(60, half(0.5), half(0.5), steps=10, samples=100, workers=2)
    assert "by allreduce:auto" in run.theory().loc["rows a second", "meaning"]
    run.training.algorithm = "direct"
    found = run.theory()
    assert "by allreduce:direct" in found.loc["rows a second", "meaning"]
    assert "rows a second by allreduce:direct" not in found.index


def test_a_run_with_shards_is_predicted_as_one_and_each_shards_link_is_measured() -> None:
    run = Facts(ParameterServer(shards=2))
    run.tell(60, half(0.5), half(0.5), workers=2, steps=10, samples=100, bytes_up=80, bytes_down=60)
    found = run.theory()
    assert "by ps:shards=2, after" in found.loc["rows a second", "meaning"]
    assert found.loc["shard's link (MB/s)", "measured"] == pytest.approx(80e-6, rel=0.05)
    assert "rows a second by ps:shards=4" in found.index
    assert "rows a second by ps:shards=2" not in found.index


def test_a_run_that_exchanges_rows_is_predicted_by_the_bytes_of_these() -> None:
    """Whole tables are what all-reduce would send."""
    few, found = {"bytes_up": 200_000, "bytes_down": 200_000}, {}
    for tables in ((), ("users",)):
        run = Facts(ParameterServer(shards=2), nbytes=100_000_000, tables=tables)
        run.tell(60, half(0.01), half(0.01), workers=2, steps=10, samples=100, **few)
        found[bool(tables)] = run.theory()["predicted"]
    assert found[True]["exchange (ms)"] < 0.01 * found[False]["exchange (ms)"]
    by = "rows a second by "
    assert found[True][f"{by}ps:shards=4"] > found[False][f"{by}ps:shards=4"]
    assert found[True][f"{by}allreduce:direct"] == found[False][f"{by}allreduce:direct"]


def test_a_run_of_model_averages_is_predicted_by_its_interval() -> None:
    run = Facts(AllReduce("parameters", 5), sync_interval=5)
    run.tell(60, half(0.5), half(0.5), steps=10, samples=100, workers=2)
    found = run.theory()
    said = found.loc["rows a second", "meaning"]
    assert "by allreduce:parameters/5, after each 5 batches" in said
    assert "rows a second by allreduce:parameters/5" not in found.index


def test_times_are_means_over_batches_of_which_fast_workers_train_more() -> None:
    run = Facts(nbytes=1)
    for number in range(1, 61):
        for partition, every in ((0, 1), (1, 3)):
            if number % every == 0:
                known = {"compute": float(every), "exchange": 0.0, "wait": 0.0}
                run.history(milestone(number, partition=partition, workers=2, steps=10, **known))
    found = run.theory()
    measured, foreseen = found.loc["compute (ms)", ["measured", "predicted"]]
    assert measured == pytest.approx(150) == pytest.approx(foreseen, rel=0.01)


def test_without_a_milestone_theory_knows_nothing() -> None:
    for run in (Facts(), Facts(AllReduce())):
        found = run.theory()
        assert found[["predicted", "measured"]].isna().all(axis=None)


@pytest.mark.parametrize("jobs", [False, True])
def test_what_spark_takes_for_a_job_is_measured_and_not_predicted(jobs: bool) -> None:
    run = Facts(TreeAggregate(jobs=jobs), sync_interval=1)
    run.tell(60, half(0.9), half(0.9), steps=1, samples=10, workers=2)
    found = run.theory()
    assert found["predicted"].isna().all() == jobs
    assert found.loc["exchange (ms)", "measured"] == pytest.approx(900)


def test_the_wait_for_the_slowest_is_predicted_where_all_step_together() -> None:
    run = Facts(AllReduce(), sync_interval=1)
    run.tell(60, {"compute": 0.2, "wait": 0.8}, {"compute": 1.0}, steps=1, samples=10)
    found = run.theory()
    assert "mean staleness" not in found.index
    assert found.loc["compute (ms)", "predicted"] == pytest.approx(600)
    assert found.loc["wait (ms)", ["predicted", "measured"]].tolist() == pytest.approx([400, 400])
