"""What reproduces published results: rounds to a target, who holds what, whose turn it is."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.papers import fedavg, local_sgd, mllib
from benchmarks.papers.asynchronous import Outcome, mean_staleness
from benchmarks.papers.fedavg import CLIENTS, check_round, crossing, shards
from benchmarks.papers.networks import guesses
from benchmarks.papers.report import row, table
from benchmarks.papers.simulation import Simulation
from benchmarks.papers.staleness import collapse_row, pairs_in_order, staleness_row
from benchmarks.papers.theory import Quadratic, descend
from benchmarks.papers.turns import Turns, by_service_time, generator, in_turn
from tests.support.numpy_program import Counting, SoftmaxRegression, digits
from tests.unit.worker.support import nothing_left
from tos_notebook.combiners import Downpour, SlowMo
from tos_notebook.common.arrays import Array
from tos_notebook.errors import DataError
from tos_notebook.layout import Layout


@pytest.fixture(autouse=True)
def clean(tmp_path: Path) -> Iterator[None]:
    """Every simulation ends its threads, and leaves no shared memory."""
    with nothing_left(tmp_path / "shared"):
        yield


# -- rounds to a target ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accuracies", "rounds"),
    [
        ([0.1, 0.5, 0.9], 1.5),
        ([0.1, 0.7], 1.0),
        ([0.8, 0.9], 0.0),
        ([0.1, 0.2, 0.3], None),
        # The running maximum: a dip before the crossing does not count.
        ([0.1, 0.6, 0.2, 0.8], 2.5),
        # Nor one after it.
        ([0.5, 0.9, 0.1, 0.9], 0.5),
    ],
)
def test_a_crossing_is_interpolated_on_the_running_maximum(
    accuracies: list[float], rounds: float | None
) -> None:
    assert crossing(accuracies, 0.7) == (None if rounds is None else pytest.approx(rounds))


@given(st.lists(st.floats(0, 1), min_size=1), st.floats(0, 1))
def test_a_crossing_lies_in_the_round_that_first_reaches_the_target(
    accuracies: list[float], target: float
) -> None:
    first = next((i for i, value in enumerate(accuracies) if value >= target), None)
    found = crossing(accuracies, target)
    if first is None:
        assert found is None
    else:
        assert found is not None
        assert max(0, first - 1) <= found <= first


# -- who holds what ----------------------------------------------------------------------

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 400))


@pytest.mark.parametrize("kind", ["IID", "non-IID"])
def test_every_row_belongs_to_one_client_and_all_have_as_many(kind: str) -> None:
    held = shards(LABELS, kind, generator(0))
    assert [len(rows) for rows in held] == [len(LABELS) // CLIENTS] * CLIENTS
    assert sorted(np.concatenate(held)) == list(range(len(LABELS)))


def test_a_client_without_iid_data_knows_at_most_two_labels_where_shards_have_one_each() -> None:
    known = [len(set(LABELS[rows])) for rows in shards(LABELS, "non-IID", generator(0))]
    assert max(known) == 2
    assert min(len(set(LABELS[rows])) for rows in shards(LABELS, "IID", generator(0))) > 5


def test_the_seed_deals_the_shards() -> None:
    one, again, other = (shards(LABELS, "non-IID", generator(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


# -- whose turn it is --------------------------------------------------------------------


def test_service_times_give_everybody_the_same_number_of_turns_in_an_order_of_the_seed() -> None:
    def turns(seed: int) -> list[int]:
        return list(itertools.islice(by_service_time(4, generator(seed)), 8000))

    assert turns(0) == turns(0) != turns(1)
    counts = Counter(turns(0))
    assert sorted(counts) == [0, 1, 2, 3]
    assert max(abs(count - 2000) for count in counts.values()) < 200
    # Exponential times have no memory: who has had a turn is as likely as any to be next.
    repeats = sum(a == b for a, b in itertools.pairwise(turns(0)))
    assert abs(repeats - 2000) < 200


def test_only_who_has_the_turn_runs() -> None:
    said: list[str] = []

    def work(name: str, wait: Callable[[], None]) -> None:
        for number in range(2):
            said.append(f"{name}{number}")
            wait()

    a, b = (Turns(partial(work, name)) for name in "ab")
    for turn in (b, a, a, b, a, b, b):
        turn.take()
    assert said == ["b0", "a0", "a1", "b1"]
    assert a.done
    assert b.done


def test_whoever_gives_a_turn_hears_of_an_error() -> None:
    def work(wait: Callable[[], None]) -> None:
        wait()
        raise ValueError("no")

    turn = Turns(work)
    turn.take()
    with pytest.raises(ValueError, match="no"):
        turn.take()


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_mean_staleness_of_exponential_service_times_is_one_less_than_the_workers(
    workers: int,
) -> None:
    _, pushes = descend(workers, 1 / workers, 600, seed=0)
    assert len(pushes) == 600
    assert mean_staleness(pushes, workers) == pytest.approx(workers - 1, rel=0.05)


# -- the simulation ----------------------------------------------------------------------


def test_a_single_worker_descends_as_it_would_alone() -> None:
    path, _ = descend(1, 0.25, 20, seed=0)
    np.testing.assert_allclose(path, 0.75 ** np.arange(21))


def test_a_worker_pushes_from_where_it_was_at_its_last_turn() -> None:
    """Round robin of n: x_{t+1} = x_t - g x_{t-n+1}, with all beginning at x_0."""
    runner, workers, rate = Quadratic(0.25), 3, 0.25
    layout = runner.spec.layout
    path = [1.0]
    with Simulation(layout, layout.pack({"x": np.float64(1)}), Downpour(), 1, 1, 0) as run:
        x = layout.tensors(run.store.center)["x"]
        rows = [(np.zeros(4, np.uint8),)] * workers

        def note() -> bool:
            path.append(x.item())
            return False

        run.work([runner] * workers, rows, (0, 0), in_turn(workers), note)
        assert [push.staleness for push in run.pushes] == [0, 1] + [2] * 10
    expected = [1.0]
    for t in range(12):
        expected.append(expected[t] - rate * expected[max(0, t - workers + 1)])
    np.testing.assert_allclose([value for value, _ in itertools.groupby(path)], expected)


def test_a_round_of_federated_averaging_is_the_mean_of_local_training() -> None:
    workers, rows = 10, 12
    x, y = digits(workers * rows)
    clients = [(x[i::workers], y[i::workers]) for i in range(workers)]
    program = SoftmaxRegression()
    layout = program.spec.layout
    initial = layout.allocate()
    with Simulation(layout, initial, SlowMo(k=workers, lr=1, momentum=0), 3, 4, 0) as run:
        run.work([program] * workers, clients, (0, 0), in_turn(workers))
        check_round(run)
        found = run.store.read()[0]
    batches = iter(program.batches)
    alone = []
    for _ in range(workers):
        parameters = {name: value.copy() for name, value in layout.tensors(initial).items()}
        for batch in itertools.islice(batches, rows // 4):
            program.step(parameters, batch)
        alone.append(parameters)
    for name, value in layout.tensors(found).items():
        np.testing.assert_allclose(value, np.mean([p[name] for p in alone], axis=0))


def test_a_round_in_which_a_client_began_later_is_refused() -> None:
    with Simulation(*_nothing(), SlowMo(k=10, lr=1, momentum=0), 1, 1, 0) as run:
        run.work([Counting()] * 9, [(np.zeros(1),)] * 9, (0, 0), in_turn(9))
        with pytest.raises(AssertionError, match="one push of each client"):
            check_round(run)


def test_rounds_follow_each_other_with_other_clients() -> None:
    program = Counting()
    with Simulation(*_nothing(), Downpour(), 2, 1, 0) as run:
        for number in range(3):
            rows = [(np.full(2, 10.0**number),)] * 2
            run.work([program] * 2, rows, (number, number), in_turn(2))
        assert run.store.version == 6
        assert run.steps == 12
        assert program.spec.layout.tensors(run.store.read()[0])["total"] == 444


def test_what_comes_when_there_is_enough_is_not_merged() -> None:
    program = Counting()
    with Simulation(*_nothing(), Downpour(), 1, 1, 0) as run:
        rows = [(np.ones(50),)] * 3
        run.work([program] * 3, rows, (0, 0), in_turn(3), lambda: run.steps >= 10)
        assert run.store.version == run.steps == 10
        assert program.spec.layout.tensors(run.store.read()[0])["rows"] == 10


def test_the_learning_rate_reaches_the_runners() -> None:
    program = SoftmaxRegression()
    layout = program.spec.layout
    with Simulation(layout, layout.allocate(), Downpour(), 1, 1, 0, learning_rate=0.125) as run:
        run.work([program], [(np.zeros((1, 4)), np.zeros(1, np.int64))], (0, 0), in_turn(1))
    assert program.rate == 0.125


def test_a_run_that_cannot_go_on_says_so() -> None:
    with Simulation(*_nothing(), Downpour(), 1, 1, 0) as run, pytest.raises(DataError, match="inf"):
        run.work([Counting()], [(np.array([np.inf]),)], (0, 0), in_turn(1))


def _nothing() -> tuple[Layout, Array]:
    layout = Counting().spec.layout
    return layout, layout.allocate()


# -- figures -----------------------------------------------------------------------------


def test_the_pairs_in_order_are_counted_without_ties() -> None:
    expected = {"a": 3.0, "b": 2.0, "c": 2.0, "d": 1.0}
    assert pairs_in_order(expected, expected) == (5, 5)
    assert pairs_in_order(expected, {"a": 1, "b": 3, "c": 2, "d": 0}) == (3, 5)


def test_a_network_guesses_the_largest_output_of_its_rectified_layers() -> None:
    identity = np.eye(2)
    # Class 0 wins where the first input exceeds 0.5 by more than the second and a bias of 0.1.
    values = [identity, np.array([-0.5, 0]), identity, np.array([0, 0.1])]
    images = np.array([[1, 0], [0.5, 0], [1, 1], [1, -9]])
    np.testing.assert_array_equal(guesses(values, images), [0, 1, 1, 0])


@pytest.mark.parametrize(
    ("rate", "found", "within"),
    [
        (0.04, [80.0, 90.0], "yes"),
        (0.04, [104.5, 104.5], "NO"),
        (0.04, [69.5, 69.5], "NO"),
        (0.04, [80.0, None], "NO"),
        (0.1, [40.0, 50.0], ""),
    ],
)
def test_rounds_are_judged_at_one_learning_rate_and_only_where_every_seed_got_there(
    rate: float, found: list[float | None], within: str
) -> None:
    outcomes = [fedavg.Outcome(rounds, 100, 0.96) for rounds in found]
    assert fedavg.compare("IID", rate, outcomes).parts["within"] == within


@pytest.mark.parametrize(("downpour", "within"), [(80.0, "yes"), (90.0, "NO")])
def test_downpour_must_collapse_where_dynsgd_does_not(downpour: float, within: str) -> None:
    found = collapse_row({"downpour": downpour, "dynsgd": 95.0})
    assert (found.value, found.parts["within"]) == (downpour - 95, within)


def test_mean_staleness_is_judged_by_the_number_of_workers() -> None:
    judged = [staleness_row((10, 1), [Outcome(97, tau)]).parts["within"] for tau in (8, 9.5, 10)]
    assert judged == ["NO", "yes", "NO"]


def test_the_table_shows_what_is_off() -> None:
    rows = [
        row("a", 2.5, "x", published="3", setup="n=1", goal=">= 3", within=False),
        row("b", 3, "", published="3", setup="n=2"),
    ]
    assert table(rows).splitlines()[2:] == [
        "| a | 3 | 2.5 x |  | n=1 | >= 3 | NO |",
        "| b | 3 | 3 |  | n=2 |  |  |",
    ]


@pytest.mark.parametrize(
    ("accuracy", "nbytes", "within"),
    [
        (97.0, 250, ["yes", "yes", ""]),
        (96.2, 250, ["NO", "yes", ""]),
        (97.0, 400, ["yes", "NO", ""]),
    ],
)
def test_local_sgd_is_judged_by_accuracy_and_bytes_and_not_by_time(
    accuracy: float, nbytes: int, within: list[str]
) -> None:
    every = [local_sgd.Outcome((90.0, 97.0), 4.0, 1000)]
    found = [local_sgd.Outcome((91.0, accuracy), 2.0, nbytes)]
    rows = local_sgd.rows_of("MNIST, H=4", 4, found, every)
    assert [each.parts["within"] for each in rows] == within
    assert [each.value for each in rows] == [accuracy, nbytes / 1000, 0.5]


def test_what_local_sgd_is_compared_with_has_no_goal() -> None:
    every = [local_sgd.Outcome((90.0, 97.0), 4.0, 1000)]
    rows = local_sgd.rows_of("MNIST", 0, every, every)
    assert [each.parts["within"] for each in rows] == ["", "", ""]


def test_exchanges_are_counted_to_the_loss_that_gradients_end_with() -> None:
    gradients = mllib.Outcome((0.7, 0.6, 0.5, 0.4, 0.3), 1.0, 1, 0.1)
    models = mllib.Outcome((0.7, 0.3, 0.2, 0.2, 0.2), 1.0, 1, 0.1)
    assert mllib.fewer(gradients, models) == pytest.approx(4)
    assert np.isnan(mllib.fewer(models, gradients))


def test_a_training_that_diverged_is_not_the_best() -> None:
    tried = [mllib.Outcome((0.7, end), 1.0, 1, 0.1) for end in (0.5, float("nan"), 0.4)]
    assert mllib.best(tried) is tried[2]


def test_the_loss_of_a_linear_model_is_that_of_its_margins() -> None:
    images = np.full((2, 784), 255, np.uint8)
    data = mllib.binary((images, np.array([4, 5])))
    assert data[1].tolist() == [0, 1]
    assert mllib.loss(np.zeros(784), data) == pytest.approx(np.log(2))
    expected = (np.log1p(np.exp(1)) + np.log1p(np.exp(-1))) / 2
    assert mllib.loss(np.full(784, 1 / 784), data) == pytest.approx(expected)
