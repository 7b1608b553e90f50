"""The matrix's own parts: what is to be counted, which cases there are, what is waited for."""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clusters.test_faults import STANDALONE, YARN
from tests.faults import counting, moments
from tests.faults.cases import Outcome
from tests.faults.kinds import ALL, FAULTS
from tests.faults.matrix import cases, line
from tests.faults.modes import IN_DRIVER, MESHED, MODES, SHARDED
from tests.support.watching import RunIsOver, Watch
from tests.unit.telemetry.samples import milestone
from tos_notebook.events import MilestoneCommitted, RunFinished


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    batch_size=st.integers(1, 7),
    epochs=st.integers(1, 5),
)
def test_what_is_expected_is_what_a_loop_over_all_batches_counts(
    sizes: list[int], batch_size: int, epochs: int
) -> None:
    total, batches, row = 0, 0, 0
    for size in sizes:
        rows = range(row + 1, row + size + 1)
        row += size
        for start in range(0, size, batch_size):
            total += sum(rows[start : start + batch_size])
            batches += 1
    assert counting.expected(sizes, batch_size, epochs) == (epochs * total, epochs * batches)


@given(
    rows=st.integers(1, 12),
    workers=st.integers(1, 4),
    batch_size=st.integers(1, 7),
    epochs=st.integers(1, 5),
)
def test_what_is_expected_of_all_workers_together_is_what_a_loop_over_their_means_counts(
    rows: int, workers: int, batch_size: int, epochs: int
) -> None:
    total, batches = Fraction(0), 0
    for start in range(0, rows, batch_size):
        stop = min(start + batch_size, rows)
        sums = [sum(range(w * rows + start + 1, w * rows + stop + 1)) for w in range(workers)]
        total += Fraction(sum(sums), workers)
        batches += 1
    found = counting.expected_together((rows,) * workers, batch_size, epochs)
    assert found == pytest.approx((float(epochs * total), epochs * batches))


def test_what_all_workers_count_together_is_not_known_of_partitions_of_two_sizes() -> None:
    with pytest.raises(ValueError, match="partitions of one size"):
        counting.expected_together((6, 100), 1, 20)


def test_there_are_at_least_sixty_cases_and_every_fault_is_tried_in_every_mode() -> None:
    found = [case for kind in ALL for case in cases([kind], list(FAULTS), list(MODES))]
    assert len(found) >= 60
    assert {case.fault.name for case in found} == set(FAULTS)
    for kind in ALL:
        # The two nodes of the network that is cut have no slots beside the workers'.
        wanted = set(IN_DRIVER) if kind == "wire" else set(MODES)
        assert {case.mode.name for case in found if case.cluster == kind} == wanted


def test_a_worker_dies_at_every_moment_that_a_step_of_a_mode_has() -> None:
    found = cases(["local"], list(moments.PLACES), list(MODES))
    played = {(case.mode.name, case.fault.name) for case in found}
    together = {name for name, mode in MODES.items() if mode.together}
    everywhere = {(name, moment) for name in together for moment in ("computing", "unreported")}
    inside = {(name, moment) for name in MESHED for moment in ("reducing", "gathering")}
    reports = {(name, "reported") for name in together if not MODES[name].jobs}
    moments_of_shards = ("computing", "unreported", "left", "counted")
    sharded = {(name, moment) for name in SHARDED for moment in moments_of_shards}
    assert played == everywhere | inside | reports | sharded


def test_a_shard_dies_at_every_moment_of_an_update_and_of_a_copy() -> None:
    found = [case for case in cases(["local"], list(FAULTS), list(MODES)) if case.fault.ends]
    assert {(case.fault.ends, case.mode.name) for case in found} == {
        (moment, mode) for moment in moments.OF_SHARDS for mode in SHARDED
    }


@pytest.mark.parametrize("moment", [*moments.PLACES, *moments.OF_SHARDS])
def test_the_places_at_which_a_worker_or_a_shard_dies_are_there(moment: str) -> None:
    places = moments.PLACES[moment] if moment in moments.PLACES else (moments.OF_SHARDS[moment],)
    for (module, name), method in places:
        assert callable(vars(getattr(import_module(f"tos_notebook.{module}"), name))[method])


@given(size=st.integers(1, 12), epochs=st.integers(1, 5))
def test_where_none_is_missing_the_count_is_that_of_all_workers_together(
    size: int, epochs: int
) -> None:
    whole = [{0: size, 1: size}] * epochs
    assert counting.expected_without((size, size), whole) == counting.expected_together(
        (size, size), 1, epochs
    )


def test_rows_whose_partner_is_missing_count_by_themselves() -> None:
    # Rows 1 to 3 and 4 to 6; of the latter only the first one is trained.
    assert counting.expected_without((3, 3), [{0: 3, 1: 1}]) == ((1 + 4) / 2 + 2 + 3, 3)
    assert counting.expected_without((3, 3), [{0: 3}]) == (6, 3)


@pytest.mark.parametrize(
    ("got", "state", "error", "exact"),
    [
        ((3.0, 2.0), "finished", "", True),
        ((3.0, 3.0), "finished", "", False),
        ((3.0, 2.0), "stopped", "", False),
        ((3.0, 2.0), "finished", "TimeoutError: no WorkerJoined", False),
    ],
)
def test_an_outcome_is_exact_only_if_all_of_it_is(
    got: tuple[float, float], state: str, error: str, exact: bool
) -> None:
    outcome = Outcome("worker", "local", "asp", (3.0, 2.0), got, 1.0, state, error)
    assert outcome.exact is exact
    assert line(outcome).endswith("ok") is exact


def test_a_watch_finds_events_behind_a_mark_and_says_when_the_run_is_over() -> None:
    watch = Watch()
    watch(milestone(0.0))
    mark = watch.until(MilestoneCommitted)
    watch(milestone(1.0))
    assert watch.until(MilestoneCommitted, mark) == 2
    with pytest.raises(TimeoutError, match="No MilestoneCommitted within 0 s"):
        watch.until(MilestoneCommitted, 2, timeout=0)
    watch(RunFinished(2.0, "finished"))
    with pytest.raises(RunIsOver, match="finished"):
        watch.until(MilestoneCommitted, 2)


@pytest.mark.parametrize(("cluster", "chosen"), [("standalone", STANDALONE), ("yarn", YARN)])
def test_the_short_version_kills_workers_and_executors_in_every_mode_that_does_not_wait_for_all(
    cluster: str, chosen: list[str]
) -> None:
    found = cases([cluster], list(FAULTS), list(MODES), chosen)
    assert sorted(f"{case.fault.name}/{case.mode}" for case in found) == sorted(chosen)
    assert {"worker/asp", "worker/ssp:3", "executor/asp"} <= {*chosen}


def test_the_short_version_kills_an_executor_whose_worker_others_are_connected_to() -> None:
    assert "executor/allreduce:ring" in STANDALONE
