from __future__ import annotations

import math
from typing import Any

import pytest

from tests.unit.telemetry.samples import joined, lost, milestone, started
from tests.unit.widgets.support import FACTS, FakeRun, points, shown
from tos_notebook import events
from tos_notebook.steering.shards import ShardLoad
from tos_notebook.telemetry.history import History
from tos_notebook.widgets.facts import RunFacts
from tos_notebook.widgets.model import RunModel
from tos_notebook.widgets.timeline import TEXT

FRAMES = (
    '  File "cell.py", line 3, in scale\n    return x / 0',
    '  File "/usr/lib/python3.11/threading.py", line 9, in run',
)


def state(model: RunModel, now: float = 10.0) -> Any:
    return model.snapshot(now, FACTS).state


def running(samples: int | None = 1000, epochs: int = 5, lockstep: bool = False) -> RunModel:
    model = RunModel()
    model(started(0.0, epochs, samples, lockstep))
    model(events.StateChanged(0.0, "running"))
    return model


def failed_worker(
    time: float = 2.0, message: str = "ZeroDivisionError: by zero"
) -> events.WorkerFailed:
    return events.WorkerFailed(time, 1, 0, "3", "node", message, FRAMES, 2, (7, 7))


def test_before_anything_happened_there_is_a_snapshot() -> None:
    found = state(RunModel())
    assert found["run"]["state"] == "starting"
    assert found["totals"]["loss"] is None
    assert found["workers"] == []


def test_the_rate_is_that_of_late_and_the_end_is_foreseen_from_it() -> None:
    model = running(samples=10_000, epochs=1)
    for n in range(1, 21):
        model(milestone(n / 2, samples=100))
        totals = state(model, n / 2)["totals"]
    assert totals["samples_per_second"] == pytest.approx(200, rel=0.1)
    assert totals["eta"] == pytest.approx(8000 / 200, rel=0.1)


def test_every_reader_is_told_the_same_loss_which_changes_once_a_second() -> None:
    model = running()
    model(milestone(1.0, loss=0.12345))
    row = model.row(1.1, FACTS)
    assert state(model, 1.0)["totals"]["loss"] == row["loss"] == 0.123
    model(milestone(1.2, loss=0.2))
    assert model.row(1.9, FACTS)["loss"] == state(model, 1.9)["totals"]["loss"] == 0.123
    assert model.row(2.0, FACTS)["loss"] == state(model, 2.1)["totals"]["loss"] == 0.162


def test_the_latest_evaluation_is_told_the_loss_last() -> None:
    model = running()
    assert state(model)["totals"]["validation"] == {}
    model(events.Validated(1.0, 0, 500, {"loss": 0.6, "accuracy": 0.8}))
    model(events.Validated(2.0, 1, 1000, {"loss": 0.5, "accuracy": 0.87654}))
    found: Any = model.row(3.0, FACTS)["validation"]
    assert list(found.items()) == [("accuracy", 0.877), ("loss", 0.5)]


def test_what_theory_needs_is_told() -> None:
    model = running()
    unknown = state(model)["totals"]
    assert (unknown["recent_workers"], unknown["recent_staleness"]) == (None, None)
    for staleness in (1, 2):
        model(milestone(1.0, staleness=staleness, workers=3))
    totals = state(model)["totals"]
    assert (totals["recent_workers"], totals["recent_staleness"]) == (3, 1.5)


def test_a_run_is_queued_until_others_free_the_slots_that_it_needs() -> None:
    model = RunModel()
    model(started(0.0))
    assert state(model)["run"]["state"] == "starting"
    model(
        events.Stalled(1.0, "slots: run 1 holds both slots", "Waiting: run 1 ...", "Stop it.", 1.0)
    )
    assert state(model)["run"]["state"] == model.row(1.0, FACTS)["state"] == "queued"
    model(events.StallEnded(2.0, "slots: run 1 holds both slots"))
    assert state(model)["run"]["state"] == "starting"
    model(events.StateChanged(2.0, "running"))
    model(
        events.Stalled(3.0, "slots: run 3 holds both slots", "Waiting: run 3 ...", "Stop it.", 3.0)
    )
    assert state(model)["run"]["state"] == "running"


def test_a_paused_run_foresees_what_is_to_go_once_it_is_resumed() -> None:
    model = running()
    model(milestone(1.0))
    before = state(model, 2.0)["totals"]["eta"]
    assert before > 0
    model(events.StateChanged(2.0, "paused"))
    assert state(model, 50.0)["totals"]["eta"] == before
    model(events.RunFinished(51.0, "stopped"))
    assert state(model, 52.0)["totals"]["eta"] is None


def test_no_end_is_foreseen_before_it_can_be_and_a_late_start_does_not_count() -> None:
    model = running(samples=100_000, epochs=1)
    model(milestone(20.4, samples=100))
    assert state(model, 20.5)["totals"]["eta"] is None
    for n in range(1, 20):
        model(milestone(20.4 + n, samples=100))
    totals = state(model, 39.5)["totals"]
    assert totals["eta"] == pytest.approx(98_000 / 100, rel=0.1)


def test_the_time_to_go_does_not_jump_where_the_rate_does() -> None:
    model = running(samples=100_000, epochs=1)
    for n in range(1, 41):
        model(milestone(float(n), samples=1000))
        state(model, float(n))
    before = state(model, 40.0)["totals"]
    assert before["eta"] == pytest.approx(60, rel=0.1)
    after = state(model, 46.0)["totals"]
    assert after["samples_per_second"] < 0.8 * before["samples_per_second"]
    assert after["eta"] < 1.2 * before["eta"]


def validated(model: RunModel, epoch: int, **values: float) -> Any:
    """Let a model be evaluated at an epoch's end; return its totals then."""
    model(events.Validated(float(epoch + 1), epoch, 1000 * (epoch + 1), values))
    return state(model, epoch + 1.5)["totals"]


def test_the_best_evaluation_is_told_with_its_epoch_where_a_name_says_what_is_better() -> None:
    model = running()
    assert validated(model, 0, loss=0.5, accuracy=0.8, oddness=3.0)["best"] == {
        "loss": {"value": 0.5, "epoch": 1},
        "accuracy": {"value": 0.8, "epoch": 1},
    }
    validated(model, 1, loss=0.4, accuracy=0.9)
    found = validated(model, 2, loss=math.nan, accuracy=0.85)
    assert found["best"] == {
        "loss": {"value": 0.4, "epoch": 2},
        "accuracy": {"value": 0.9, "epoch": 2},
    }
    assert model.row(4.0, FACTS)["best"] == found["best"]


def test_a_validation_loss_that_grows_for_some_evaluations_is_called_overfitting() -> None:
    model = running()
    validated(model, 0, loss=0.6)
    validated(model, 1, loss=0.5)
    for epoch in (2, 3):
        assert validated(model, epoch, loss=0.6)["warning"] is None
    assert validated(model, 4, loss=0.51)["warning"] is None
    overfits = {"kind": "overfitting", "epoch": 2, "factor": None}
    assert validated(model, 5, loss=0.6)["warning"] == overfits
    assert validated(model, 6, loss=0.4)["warning"] is None


def test_validation_and_training_loss_that_grow_together_are_not_overfitting() -> None:
    """As after a larger learning rate: the model fits the training data no better either."""
    model = running()
    model(milestone(0.5, loss=0.2))
    validated(model, 0, loss=0.5)
    for n in range(25):
        model(milestone(1.0 + n, loss=0.3))
    for epoch in range(1, 5):
        assert validated(model, epoch, loss=0.6)["warning"] is None
    for n in range(25):
        model(milestone(30.0 + n, loss=0.1))
    assert validated(model, 60, loss=0.6)["warning"]["kind"] == "overfitting"


def test_what_a_step_gives_has_its_place_before_the_first_milestone() -> None:
    """So that no chart and no number moves when values come."""
    model = running()
    facts = FACTS | {"measures": ["accuracy"]}
    first = model.snapshot(1.0, facts)
    heads = [{"name": n, "split": "training", "length": 0} for n in ("loss", "accuracy")]
    assert first.state["series"] == heads
    assert first.state["totals"]["metrics"] == {"accuracy": None}
    model(milestone(1.0, loss=0.5, metrics={"accuracy": 0.9}))
    news = model.delta(first.cursor, 2.0, facts)
    assert news is not None
    assert [head["name"] for head in news.state["series"]][:2] == ["loss", "accuracy"]
    assert news.state["totals"]["metrics"] == {"accuracy": 0.9}


def test_a_loss_far_above_its_lowest_is_called_diverging() -> None:
    model = running()
    assert state(model)["totals"]["warning"] is None
    model(milestone(1.0, loss=0.5))
    assert state(model, 1.5)["totals"]["warning"] is None
    for n in range(25):
        model(milestone(2.0 + n, loss=1000.0))
    diverges = {"kind": "diverging", "epoch": None, "factor": 2000.0}
    assert state(model, 30.0)["totals"]["warning"] == diverges
    for n in range(25):
        model(milestone(30.0 + n, loss=math.nan))
    lost = state(model, 60.0)["totals"]["warning"]
    assert lost == {"kind": "diverging", "epoch": None, "factor": None}
    for n in range(25):
        model(milestone(60.0 + n, loss=0.6))
    assert state(model, 90.0)["totals"]["warning"] is None


def test_the_size_of_the_data_is_learnt_from_the_first_epoch() -> None:
    model = running(samples=None)
    model(milestone(1.0, samples=100))
    assert state(model)["totals"]["samples_total"] is None
    model(events.EpochFinished(1.0, 0, 100))
    model(milestone(2.0, samples=50, epoch=1))
    model(events.RunFinished(2.0, "stopped"))
    news = model.snapshot(3.0, FACTS)
    assert news.state["totals"]["samples_total"] == 500
    assert points(news.buffers[0])[2].tolist() == [0.0, 1.5]


def test_a_straggler_is_named_in_words() -> None:
    model = running()
    for n in range(10):
        for partition, compute in enumerate((0.1, 0.1, 0.4)):
            model(milestone(n / 10, partition=partition, compute=compute, exchange=0.0))
    assert notes(model, 1.0) == ["", "", ""]
    assert notes(model, 5.9) == ["", "", ""]
    steady(model, 6.0)
    assert notes(model, 6.0) == ["", "", "behind: 25 % of the median pace"]
    steady(model, 7.0, slowest=0.16)
    assert notes(model, 7.0)[2] == "behind: 62 % of the median pace"
    steady(model, 8.0, slowest=0.1)
    assert notes(model, 8.0) == ["", "", ""]
    assert notes(model, 68.0)[0] == "behind: nothing heard of it for 60 s"


def test_in_lockstep_silence_is_no_workers_own() -> None:
    model = running(lockstep=True)
    steady(model, 1.0)
    notes(model, 1.0)
    # Who has computed longest is behind all the same.
    assert notes(model, 68.0) == ["", "", "behind: 25 % of the median pace"]
    rows = state(model, 1.0)
    assert rows["totals"]["staleness_mean"] is None


def test_a_worker_says_which_share_of_its_time_it_has_waited_of_late() -> None:
    model = running(lockstep=True)
    model(joined())
    assert state(model, 0.0)["workers"][0]["waiting"] is None
    model(milestone(1.0, compute=0.25, exchange=0.25, wait=0.5))
    assert state(model, 1.0)["workers"][0]["waiting"] == 0.5
    for n in range(50):
        model(milestone(2.0 + n, compute=0.75, exchange=0.25, wait=0.0))
    assert state(model, 52.0)["workers"][0]["waiting"] < 0.001


def test_a_worker_says_what_it_used_of_processor_and_memory_at_last() -> None:
    model = running()
    model(milestone(1.0))
    row = state(model, 1.0)["workers"][0]
    assert (row["cpu"], row["memory"]) == (None, None)
    for used in ({"cpu": 0.25, "memory": 2**20}, {"cpu": 1.23456, "memory": 2**21}):
        model(milestone(2.0, **used))
    row = state(model, 2.0)["workers"][0]
    assert (row["cpu"], row["memory"]) == (1.23, 2**21)


def test_of_steps_made_together_it_says_what_they_cost_and_for_whom_the_others_wait() -> None:
    model = running(lockstep=True)
    assert state(model, 0.0)["totals"]["costs"] is None
    for partition, (compute, wait) in enumerate([(0.2, 0.7), (0.8, 0.1)]):
        parts = {"compute": compute, "exchange": 0.1, "wait": wait, "partition": partition}
        model(milestone(1.0, **parts, bytes_up=300, bytes_down=100))
    found = state(model, 1.0)
    assert found["totals"]["costs"] == {
        "compute": 0.5,
        "exchange": 0.1,
        "wait": 0.4,
        "sent": 300,
        "received": 100,
        "slowest": {"executor": "1", "partition": 1, "waiting": 0.1, "others": 0.7},
    }
    row = found["workers"][1]
    shares = [row[name] for name in ("computing", "exchanging", "waiting")]
    assert shares == pytest.approx([0.8, 0.1, 0.1])
    assert (row["sent"], row["received"]) == (300, 100)
    # Of a worker that has left, nothing is waited for.
    model(events.WorkerLost(2.0, 1, 0, "1", "node", "gone"))
    assert state(model, 2.0)["totals"]["costs"]["slowest"] is None


@pytest.mark.parametrize("waits", [(0.5,), (0.5, 0.51), (0.3, 0.32, 0.33)])
def test_of_workers_that_wait_alike_none_is_the_slowest(waits: tuple[float, ...]) -> None:
    model = running(lockstep=True)
    for partition, wait in enumerate(waits):
        model(milestone(1.0, partition=partition, compute=1 - wait, exchange=0.0, wait=wait))
    assert state(model, 1.0)["totals"]["costs"]["slowest"] is None


def test_of_steps_made_together_it_is_told_what_each_link_carries() -> None:
    model = running(lockstep=True)
    assert state(model)["totals"]["links"] is None
    times = {"compute": 0.5, "exchange": 0.5, "wait": 0.0}
    model(milestone(1.0, **times, links=((0, 1, 1234), (0, -1, 60)), more_links=3))
    found = state(model)["totals"]["links"]
    assert found == {"rates": [(0, 1, 1230.0), (0, -1, 60.0)], "more": 3}


def test_a_swap_that_was_asked_for_is_shown_until_the_epoch_ends() -> None:
    model = running()
    model(events.CommandAccepted(1.0, "swap strategy", "allreduce (of=gradients)"))
    model(events.CommandAccepted(1.1, "pause", ""))
    assert state(model)["run"]["pending"] == [
        "Swap strategy waits for the end of the epoch: allreduce (of=gradients)"
    ]
    model(events.CommandApplied(2.0, "swap strategy", "allreduce (of=gradients)"))
    assert state(model)["run"]["pending"] == []


def test_a_lost_worker_is_shown_with_what_the_run_does_until_it_is_back() -> None:
    model = running(lockstep=True)
    model(joined(0.5))
    model(lost(1.0))
    (text,) = state(model)["run"]["lost"]
    assert text.startswith("Partition 0 lost its worker on executor 1 (node): connection reset.")
    assert text.endswith("no step is lost.")
    model(joined(2.0, attempt=1))
    assert state(model)["run"]["lost"] == []


def test_workers_apart_have_no_costs_of_a_step() -> None:
    model = running()
    model(milestone(1.0))
    assert state(model, 1.0)["totals"]["costs"] is None


def notes(model: RunModel, now: float) -> list[str]:
    return [row["note"] for row in state(model, now)["workers"]]


def steady(model: RunModel, time: float, slowest: float = 0.4, count: int = 30) -> None:
    """Let three workers train at their pace, the last one at its own."""
    for _ in range(count):
        for partition, compute in enumerate((0.1, 0.1, slowest)):
            model(milestone(time, partition=partition, compute=compute, exchange=0.0))


@pytest.mark.parametrize("change", ["unpause", "join", "repartition"])
def test_after_a_change_the_workers_have_time_to_find_their_pace(change: str) -> None:
    model = running()
    steady(model, 1.0)
    notes(model, 1.0)
    assert notes(model, 9.0)[0] == "behind: nothing heard of it for 8 s"
    if change == "unpause":
        model(events.StateChanged(9.0, "paused"))
        model(events.StateChanged(9.0, "running"))
    elif change == "join":
        model(joined(9.0, partition=2))
    else:
        model(events.Repartitioned(9.0, 1, 3, 0.1))
        steady(model, 9.0)
    assert notes(model, 18.9) == [""] * len(notes(model, 18.9))
    steady(model, 19.0)
    notes(model, 19.0)
    steady(model, 24.0)
    assert any(notes(model, 24.0))


def test_of_two_workers_neither_is_a_straggler() -> None:
    model = running()
    for n in range(10):
        for partition, compute in enumerate((0.1, 0.9)):
            model(milestone(n / 10, partition=partition, compute=compute))
    notes(model, 1.0)
    assert notes(model, 60.0) == ["", ""]


def test_a_pause_counts_neither_for_the_rate_nor_for_what_is_to_go() -> None:
    model = running(samples=10_000, epochs=1)
    for n in range(1, 21):
        model(milestone(n / 2, samples=100))
        before = state(model, n / 2)["totals"]
    model(events.StateChanged(10.0, "paused"))
    assert state(model, 60.0)["totals"]["samples_per_second"] == before["samples_per_second"]
    model(events.StateChanged(65.0, "running"))
    model(milestone(65.5, samples=100))
    after = state(model, 65.5)["totals"]
    assert after["samples_per_second"] == pytest.approx(200, rel=0.1)
    assert after["eta"] == pytest.approx(7900 / 200, rel=0.1)
    model(events.RunFinished(66.0, "stopped"))
    assert state(model, 70.0)["totals"]["samples_per_second"] == pytest.approx(200, rel=0.1)


def test_a_worker_alone_is_no_straggler() -> None:
    model = running()
    for n in range(10):
        model(milestone(n / 10))
    assert state(model, 1.0)["workers"][0]["note"] == ""


def test_the_state_of_a_worker_follows_its_life() -> None:
    model = running()

    def states(now: float) -> list[str]:
        return [row["state"] for row in state(model, now)["workers"]]

    model(joined(0.0))
    model(milestone(1.0))
    assert states(1.0) == ["training"]
    model(events.PartitionFinished(1.1, 0, 0, 100))
    assert states(1.5) == ["training"]
    assert states(5.0) == ["waiting"]
    model(milestone(6.0, epoch=1))
    assert states(9.0) == ["training"]
    model(events.StateChanged(9.0, "paused"))
    assert states(9.0) == ["waiting"]
    model(events.StateChanged(9.0, "running"))
    model(lost(10.0))
    assert states(10.0) == ["lost"]
    model(joined(11.0, attempt=1))
    assert states(11.0) == ["training"]
    model(events.Repartitioned(12.0, 1, 4, 0.1))
    assert states(12.0) == ["done"]


@pytest.mark.parametrize(
    ("outcome", "ends"),
    [
        ("finished", ["done", "done", "lost", "lost"]),
        ("stopped", ["stopped", "done", "lost", "lost"]),
        ("failed", ["stopped", "done", "failed", "lost"]),
    ],
)
def test_workers_of_a_run_that_did_not_finish_are_not_done(outcome: str, ends: list[str]) -> None:
    model = running()
    model(joined(0.0))
    model(events.WorkerJoined(0.0, 2, 0, "2", "node", epoch=0, resumed_at=0))
    model(failed_worker(1.0))
    # The data of the second worker has another one from here on.
    model(joined(2.0, partition=2, attempt=1))
    model(lost(3.0, partition=2, attempt=1))
    model(events.RunFinished(4.0, outcome))
    assert [row["state"] for row in state(model)["workers"]] == ends


def test_a_worker_that_failed_and_is_back_has_not_failed() -> None:
    model = running()
    model(failed_worker(1.0))
    assert state(model)["workers"][0]["state"] == "lost"
    model(events.WorkerJoined(2.0, 1, 1, "3", "node", epoch=0, resumed_at=0))
    model(events.WorkerLost(3.0, 1, 1, "3", "node", "gone"))
    model(events.RunFinished(4.0, "failed"))
    assert state(model)["workers"][0]["state"] == "lost"


def test_losses_and_retries_are_marked_at_their_worker() -> None:
    model = running()
    model(joined(0.0, partition=0))
    model(joined(0.0, partition=1))
    model(lost(2.0, partition=1))
    model(joined(3.0, partition=1, attempt=1))
    model(failed_worker(4.0))
    found = state(model)
    assert [(m["time"], m["worker"], m["kind"]) for m in found["marks"]] == [
        (2.0, 1, "lost"),
        (3.0, 1, "retry"),
        (4.0, 2, "failed"),
    ]
    assert [entry["level"] for entry in found["log"]] == ["warning", "info", "error"]


def commands(model: RunModel) -> list[tuple[str, str]]:
    return [(c["command"], c["stage"]) for c in state(model)["commands"]]


def test_a_command_is_asked_and_later_in_force_in_one_entry() -> None:
    model = running()
    model(events.CommandAccepted(1.0, "set", "learning_rate=0.1, from the next milestone on"))
    asked = state(model)["commands"]
    model(events.CommandApplied(2.0, "set", "learning_rate=0.1"))
    applied = state(model)["commands"]
    assert [(c["time"], c["stage"]) for c in asked + applied] == [
        (1.0, "asked"),
        (1.0, "in force"),
    ]


def test_rates_of_a_callback_are_one_entry_and_push_nothing_out_of_the_view() -> None:
    model = running()
    model(events.CommandAccepted(1.0, "swap combiner", "easgd", {"combiner": "easgd"}))
    model(events.CommandApplied(1.5, "swap combiner", "easgd"))
    for step in range(100):
        changes = {"learning_rate": str(1 / (1 + step))}
        detail = f"learning_rate={changes['learning_rate']}"
        model(events.CommandAccepted(2.0 + step, "set", detail, changes, "callbacks="))
        model(events.CommandApplied(2.5 + step, "set", detail))
    found = state(model)["commands"]
    assert [(c["command"], c["stage"], c["since"]) for c in found] == [
        ("swap combiner", "in force", 1.5),
        ("set", "in force", 2.5),
    ]
    assert found[-1]["changes"] == {"learning_rate": "0.01"}
    # What a person sets after it is an entry of its own.
    model(events.CommandAccepted(200.0, "set", "learning_rate=1.0", {"learning_rate": "1.0"}))
    assert [c["series"] for c in state(model)["commands"]] == [None, "callbacks=", None]


def test_a_learning_rate_that_is_set_is_a_curve_from_when_it_is_in_force() -> None:
    model = running()
    model(milestone(1.0))
    model(events.CommandAccepted(1.5, "set", "learning_rate=0.1", {"learning_rate": "0.1"}))
    model(milestone(2.0))
    assert ("learning rate", "work") not in shown(model).series
    model(events.CommandApplied(2.5, "set", "learning_rate=0.1"))
    model(milestone(3.0))
    assert shown(model).series["learning rate", "work"][3] == [pytest.approx(0.1)]


def test_the_log_warns_of_chaos_while_other_commands_are_no_warning() -> None:
    model = running()
    model(events.CommandAccepted(1.0, "set", "x"))
    model(events.CommandAccepted(2.0, "chaos", "partition 1: 5 times slower"))
    model(events.CommandAccepted(3.0, "chaos", "off"))
    assert [(e["time"], e["level"], e["text"]) for e in state(model)["log"]] == [
        (2.0, "warning", "chaos on purpose: partition 1: 5 times slower"),
        (3.0, "info", "chaos on purpose: off"),
    ]


def test_equal_commands_at_one_time_are_two_entries() -> None:
    model = running()
    for _ in range(2):
        model(events.CommandAccepted(1.0, "set", "x"))
    first, second = state(model)["commands"]
    assert first["time"] != second["time"]
    model(events.CommandApplied(2.0, "set", "x"))
    assert commands(model) == [("set", "in force"), ("set", "asked")]


def test_a_pause_that_is_overtaken_never_was_in_force() -> None:
    model = running()
    model(events.CommandAccepted(1.0, "pause", ""))
    model(events.StateChanged(1.0, "paused"))
    model(events.CommandAccepted(2.0, "unpause", ""))
    model(events.StateChanged(2.0, "running"))
    assert commands(model) == [("pause", "refused"), ("unpause", "in force")]


def test_the_end_settles_what_is_open() -> None:
    model = running()
    model(events.CommandAccepted(1.0, "set", ""))
    model(events.CommandAccepted(1.0, "repartition", ""))
    model(events.CommandAccepted(1.0, "stop", ""))
    model(events.CommandLapsed(2.0, "repartition", "no epoch followed"))
    model(events.RunFinished(2.0, "stopped"))
    assert commands(model) == [
        ("set", "refused"),
        ("repartition", "refused"),
        ("stop", "in force"),
    ]


def test_the_log_says_what_else_went_wrong() -> None:
    model = running()
    for n in range(1000):
        model(events.UpdateSkipped(n / 1000, 0, 2, 0, n, "NaN in the update"))
    model(events.ValidationFailed(1.5, 1, "no memory"))
    model(events.CallbackFailed(1.5, "CSVLogger", "on_epoch_end", "OSError: disk full"))
    model(events.Repartitioned(2.0, 2, 4, 0.5))
    texts = [entry["text"] for entry in state(model)["log"]]
    assert texts == [
        "1 updates left out so far; partition 2: NaN in the update",
        "Validation after epoch 2 failed, and ends: no memory",
        "The run no longer calls callback CSVLogger: on_epoch_end raised OSError: disk full",
        "4 partitions from epoch 3 on, partitioned in 0.50 s.",
    ]
    assert state(model)["run"]["partitions"] == 4


def test_the_log_says_why_a_run_was_stopped() -> None:
    model = running()
    model(events.RunFinished(2.0, "stopped", reason="training loss 0.09 < 0.1"))
    assert state(model)["log"][-1]["text"] == "stopped: training loss 0.09 < 0.1"


def test_the_log_says_when_evaluations_began_to_be_no_numbers() -> None:
    model = running()
    for epoch, loss in enumerate([0.5, math.nan, math.nan, 0.5, math.inf]):
        model(events.Validated(epoch, epoch, 100, {"loss": loss, "accuracy": 0.5}))
    log = state(model)["log"]
    assert [entry["level"] for entry in log] == ["warning", "warning"]
    assert "At epoch 2 the validation data gave loss nan. Look at its rows" in log[0]["text"]
    assert "At epoch 5 the validation data gave loss inf." in log[1]["text"]


def test_evaluations_in_mid_epoch_stand_where_they_were_made() -> None:
    model = RunModel()
    model(started(0.0, epochs=2, samples=1000))
    for epoch, samples in ((0, 250), (0, 500), (0, 1000), (1, 2000)):
        model(events.Validated(samples / 1000, epoch, samples, {"loss": 1.0}))
    points = shown(model).series["loss", "validation"]
    assert points[2].tolist() == [0.25, 0.5, 1.0, 2.0]


def test_texts_are_bounded() -> None:
    model = running()
    model(failed_worker(message="E: " + "x" * 100_000))
    assert max(len(entry["text"]) for entry in state(model)["log"]) == TEXT


def test_a_workers_error_is_the_runs_once_it_failed() -> None:
    model = running()
    model(failed_worker())
    assert state(model)["run"]["error"] is None
    model(events.StateChanged(2.0, "failed"))
    expected = {
        "message": "ZeroDivisionError: by zero",
        "where": "executor 3 (node), partition 1, attempt 0, epoch 3, batch 7",
        "frames": [FRAMES[0]],
        "rest": FRAMES[1],
    }
    assert state(model)["run"]["error"] == expected
    model(events.RunFinished(3.0, "failed", "ZeroDivisionError: by zero  [on executor 3]\nmore"))
    assert state(model)["run"]["error"] == expected


def test_an_error_that_no_worker_raised_is_folded_after_its_first_line() -> None:
    model = running()
    model(failed_worker())
    model(events.RunFinished(3.0, "failed", "TosError: Spark gave up\nat java.lang.Thread"))
    error = state(model)["run"]["error"]
    assert (error["message"], error["rest"]) == ("TosError: Spark gave up", "at java.lang.Thread")
    assert error["where"] is None


def test_after_the_end_time_stands_still() -> None:
    model = running()
    model(milestone(1.0))
    model(events.RunFinished(2.0, "finished"))
    early, late = state(model, 3.0), state(model, 300.0)
    assert early == late
    assert early["run"]["elapsed"] == 2.0
    assert early["workers"][0]["age"] == 1.0


def test_what_the_run_waits_for_is_shown_until_it_comes_and_stays_in_the_log() -> None:
    model = running()
    assert state(model)["run"]["waits"] == []
    model(events.Stalled(60.0, "worker", "The run waits for a worker.", "See Spark.", 0.0))
    model(events.Stalled(61.0, "silent 1.7", "It waits for partition 1.", "See its log.", 1.0))
    assert state(model)["run"]["waits"] == [
        "The run waits for a worker. See Spark.",
        "It waits for partition 1. See its log.",
    ]
    model(events.StallEnded(70.0, "worker"))
    assert state(model)["run"]["waits"] == ["It waits for partition 1. See its log."]
    assert [entry["level"] for entry in state(model)["log"]] == ["warning", "warning", "info"]


def test_a_delta_tells_of_the_commands_when_the_strategy_has_changed() -> None:
    model = RunModel()
    model(started())
    first = model.snapshot(1.0, FACTS)
    same = model.delta(first.cursor, 2.0, FACTS)
    assert same is not None
    assert "actions" not in same.state["run"]
    model(events.StrategySwapped(3.0, 1, "allreduce", True))
    other = model.delta(same.cursor, 3.0, {**FACTS, "strategy": "allreduce (of gradients)"})
    assert other is not None
    assert other.state["run"]["actions"] == FACTS["actions"]
    assert other.state["log"][-1]["text"] == "strategy allreduce from epoch 2 on"


def test_workers_and_epochs_count_as_in_the_history() -> None:
    model, history = RunModel(), History()
    told: list[Any] = [started()]
    for partition in (0, 1, 2):
        told += [joined(0.1, partition), milestone(1.0, partition=partition, epoch=partition)]
    told.append(events.Validated(2.0, 1, 300, {"loss": 0.5}))
    for event in told:
        model(event)
        history(event)
    state = model.snapshot(3.0, FACTS).state
    table = history.workers()
    shown = [(row["partition"], row["epoch"]) for row in state["workers"]]
    assert shown == list(zip(table["partition"], table["epoch"], strict=True))
    assert shown == [(0, 1), (1, 2), (2, 3)]
    assert state["run"]["epoch"] == history.frame()["epoch"].max() == 3
    assert history.validation()["epoch"].tolist() == [2]


def test_a_shard_is_a_row_without_what_only_workers_have() -> None:
    run = FakeRun()
    run.shards = (ShardLoad(2, "node", 0.4213, 2048, 1e6, 2e6, 3.5, 10, 20, 7),)
    (row,) = RunFacts(run)()["shards"]  # type: ignore[arg-type]
    assert (row["executor"], row["host"], row["state"]) == ("shard 2", "node", "serving")
    assert (row["cpu"], row["memory"], row["milestones"]) == (0.421, 2048, 7)
    assert (row["received"], row["sent"]) == (10, 20)
    assert {row[name] for name in ("partition", "epoch", "samples_per_second", "age")} == {None}
