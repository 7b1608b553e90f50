"""All-reduce of parameters with an outer optimizer: one rule, the same bits on all workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.reduction.conftest import meshes, together
from tests.unit.strategies.allreduce.test_allreduce import X, Y, parameters, parts
from tests.unit.strategies.allreduce.test_mesh import Dying
from tos_notebook import combiners
from tos_notebook.archive.spec import FeedSpec, ProgramSpec
from tos_notebook.codecs.pair import PLAIN
from tos_notebook.combiners import Combiner, PushInfo, as_combiner
from tos_notebook.common.arrays import Array
from tos_notebook.coordination.snapshots import Progress
from tos_notebook.errors import CheckpointError, ConfigError, RemoteProtocolError
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.reduction.schedules import direct, halving, ring
from tos_notebook.strategies import AllReduce
from tos_notebook.strategies.allreduce.averaging import Averager, signed
from tos_notebook.strategies.allreduce.outer import OuterOptimizer, from_text, to_text
from tos_notebook.strategies.allreduce.settings import ReduceSettings
from tos_notebook.testing import check_strategy
from tos_notebook.testing.bench import Bench, Deadline, Trial, initial
from tos_notebook.testing.programs import NumpyProgram, SoftmaxRegression

NAMES = ["fedavg", "diloco", "slowmo", "bmuf", "fedadam", "fedyogi"]
ALONE = PushInfo(worker=0, staleness=0, steps=1, samples=1, workers=1, pushes=0)


class WithOuter(AllReduce):
    """All-reduce whose checks are made with an outer optimizer by which changes add up."""

    def exact_settings(self) -> ReduceSettings:
        return ReduceSettings(self.of, PLAIN, self.algorithm, combiners.FedAvg())


def trial(rule: str | Combiner, algorithm: str = "ring") -> Trial:
    made = Trial(AllReduce(of="parameters", algorithm=algorithm), Deadline(20.0))
    made.settings = made.strategy.settings(as_combiner(rule), PLAIN)
    return made


@contextmanager
def bench(
    rule: str | Combiner, program: NumpyProgram | None = None, algorithm: str = "ring"
) -> Iterator[Bench]:
    with trial(rule, algorithm).bench(program or SoftmaxRegression()) as made:
        yield made


def by_hand(
    rule: Combiner, partitions: int, epochs: int, of: Callable[..., Array] = np.mean
) -> dict[str, Array]:
    """Return what the combiner makes of the workers' changes, as a server alone would."""
    program = SoftmaxRegression()
    layout = program.spec.layout
    found = layout.tensors(initial(layout))
    rules = {name: rule.begin(value) for name, value in found.items()}
    dealt = parts(len(X), partitions)
    for _ in range(epochs):
        for step in range(max(map(len, dealt))):
            rows = [part[step] for part in dealt if step < len(part)]
            changes: dict[str, list[Array]] = {name: [] for name in found}
            for row in rows:
                trained = {name: value.copy() for name, value in found.items()}
                program.step(trained, (X[[row]], Y[[row]]))
                for name, value in found.items():
                    changes[name].append(trained[name] - value)
            for name, value in found.items():
                rules[name].merge(value, of(changes[name], axis=0), ALONE)
    return found


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [*zip(NAMES, ["ring", "direct", "halving", "two_level", "auto", "ring"], strict=True)],
)
def test_workers_apply_the_rule_to_their_mean_change(name: str, algorithm: str) -> None:
    # Partitions of 10, 10 and 11 rows: the last step is one worker's alone.
    with bench(name, algorithm=algorithm) as run:
        run.begin((X, Y), 3, range(2))
        run.work()
        found = parameters(run)
    for tensor, value in by_hand(as_combiner(name), 3, 2).items():
        np.testing.assert_allclose(found[tensor], value, rtol=1e-9)


@pytest.mark.parametrize("algorithm", ["auto", "direct"])
@pytest.mark.parametrize("then", [None, combiners.FedAdam()])
def test_the_median_change_can_take_the_place_of_the_mean(
    algorithm: str, then: Combiner | None
) -> None:
    with bench(combiners.Median(then=then), algorithm=algorithm) as run:
        run.begin((X, Y), 3, range(2))
        run.work()
        found = parameters(run)
    for tensor, value in by_hand(then or combiners.FedAvg(), 3, 2, np.median).items():
        np.testing.assert_allclose(found[tensor], value, rtol=1e-9)


def trained(rule: str, program: NumpyProgram, lose: int | None, algorithm: str) -> bytes:
    with bench(rule, program, algorithm) as run:
        run.begin((X, Y), 3, range(3))
        run.work(lose=lose)
        assert run.rows_told() == 3 * len(X)
        return run.run.parameters.read()[0].tobytes()


@pytest.mark.parametrize(
    ("name", "algorithm"), [("diloco", "ring"), ("fedadam", "ring"), ("median", "direct")]
)
@pytest.mark.parametrize("call", [0, 3, 17, 29])
def test_a_lost_worker_changes_no_bit(name: str, algorithm: str, call: int) -> None:
    undisturbed = trained(name, SoftmaxRegression(), None, algorithm)
    # Within a milestone, while others have made rounds of it, and after its report got through.
    assert trained(name, Dying("gradient", 0, call), 10**6, algorithm) == undisturbed
    assert trained(name, SoftmaxRegression(), call // 4, algorithm) == undisturbed


@pytest.mark.parametrize("name", ["diloco", "fedyogi"])
def test_a_checkpoint_has_the_rules_state(name: str) -> None:
    with bench(name) as run:
        run.begin((X, Y), 2, range(1))
        run.work()
        taken = run.run.snapshot()
        assert taken is not None
        run.begin((X, Y), 2, range(1, 2))
        run.work()
        expected = run.run.parameters.read()[0].tobytes()
    continued, done = trial(name), taken.progress
    value, arrays = continued.strategy.to_parts(done.copied)
    copied = continued.strategy.from_parts(json.loads(json.dumps(value)), arrays)
    saved = json.dumps(continued.strategy.settings_to_json(continued.settings))
    continued.settings = continued.strategy.settings_from_json(json.loads(saved))
    with continued.bench(SoftmaxRegression()) as run:
        run.run.restore(Progress(done.ledger, copied, done.samples, done.rows, done.reached))
        run.begin((X, Y), 2, range(1, 2))
        run.work()
        assert run.run.parameters.read()[0].tobytes() == expected
    with (
        bench("fedavg") as run,
        pytest.raises(CheckpointError, match="of another combiner"),
    ):
        run.run.restore(Progress(done.ledger, copied, done.samples, done.rows, done.reached))


@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_it_does_what_every_strategy_must(algorithm: str) -> None:
    check_strategy(WithOuter(of="parameters", algorithm=algorithm))


class Kinds(NumpyProgram):
    """Has integers, of which one falls, and statistics beside what is trained."""

    def __init__(self) -> None:
        specs = (
            ParameterSpec("w", (3,), "float32"),
            ParameterSpec("left", (), "uint32"),
            ParameterSpec("moving", (), "float64", trained=False),
        )
        feeds = (FeedSpec("row", "float64", ()),)
        self.spec = ProgramSpec("numpy", feeds, Layout(specs), ("loss",), False)

    def step(self, parameters: dict[str, Array], batch: tuple[Array, ...]) -> dict[str, float]:
        parameters["w"] += 1
        parameters["left"] -= np.uint32(1)
        parameters["moving"] += 0.5 * (batch[0].mean() - parameters["moving"])
        return {"loss": 0.0}


def test_momentum_moves_what_is_trained_and_statistics_are_averaged() -> None:
    with bench("slowmo", Kinds()) as run:
        run.begin((np.full(4, 8.0),), 2, range(1))
        run.work()
        found = parameters(run)
    # Of two rounds: half a change comes on top, and is rounded to the even integer.
    np.testing.assert_allclose(found["w"], 3 + 1 + 1.5)
    assert found["left"] == 3 - 1 - 2
    np.testing.assert_allclose(found["moving"], 8 - 5 / 4)


@settings(max_examples=20, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    make=st.sampled_from([ring, direct, halving]),
    weights=st.lists(st.integers(0, 1000), min_size=1, max_size=4).filter(any),
    seed=st.integers(0, 99),
)
def test_all_ranks_hold_the_same_bits(name: str, make: Any, weights: list[int], seed: int) -> None:
    n, random = len(weights), np.random.default_rng(seed)
    layout = Layout(
        [
            ParameterSpec("w", (int(random.integers(1, 5000)),), "float32"),
            ParameterSpec("n", (int(random.integers(1, 9)),), "int16"),
            ParameterSpec("moving", (2,), "float64", trained=False),
        ]
    )
    works = [layout.allocate() for _ in range(n)]
    optimizers = [OuterOptimizer(layout, from_text(to_text(as_combiner(name)))) for _ in range(n)]
    held = [initial(layout) for _ in range(n)]

    def train(mesh: Any, rank: int) -> None:
        averager = Averager(mesh, make(n), signed(layout.vectors(works[rank])))
        for step in range(3):
            own = np.random.default_rng((seed, rank, step))
            for tensor in layout.tensors(works[rank]).values():
                tensor[...] = own.normal(0, 10, tensor.shape)
            assert averager.average(weights[rank]) == pytest.approx(sum(weights))
            vectors, means = layout.vectors(held[rank]), layout.vectors(works[rank])
            layout.pack(optimizers[rank].update(vectors, means), held[rank])

    with meshes(n) as formed:
        ended = together([lambda m=m, r=r: train(m, r) for r, m in enumerate(formed)])  # type: ignore[misc]
    assert ended == [None] * n
    assert len({each.tobytes() for each in held}) == 1
    assert len({b"".join(map(bytes, each.state())) for each in optimizers}) == 1


@pytest.mark.parametrize(
    ("options", "rule", "expected"),
    [
        ({}, "diloco", "none where workers average gradients.*allreduce:parameters/10"),
        ({"of": "parameters", "algorithm": "star"}, "diloco", "algorithm='auto'"),
        ({"of": "parameters", "algorithm": "ring"}, "median", "algorithm='direct'"),
        ({"of": "parameters"}, "multikrum", "whole models.*median or trimm.*strategy='ps'"),
        ({"of": "parameters"}, combiners.Median(then=combiners.FedBuff()), "one by one"),
        ({"of": "parameters"}, "dynsgd", "at once: fedavg, diloco.*Got DynSGD"),
        ({"of": "parameters"}, combiners.FedAvg(k=2), "Leave k out"),
        ({"of": "parameters"}, lambda center, update, push: center, "or is your own"),
    ],
)
def test_what_workers_cannot_apply_says_why_and_what_to_do(
    options: dict[str, Any], rule: Any, expected: str
) -> None:
    with pytest.raises(ConfigError, match=f"combiner: expected.*{expected}"):
        AllReduce(**options).settings(as_combiner(rule), PLAIN)


def test_a_session_shows_the_rule_and_another_one_comes_with_a_swap() -> None:
    made = AllReduce(of="parameters").settings(as_combiner("slowmo"), PLAIN)
    assert made.shown()["combiner"].name == "slowmo"
    assert repr(from_text(made.for_worker()["outer"])) == (
        "OuterMomentum(k=None, lr=1.0, momentum=0.5, nesterov=False)"
    )
    with pytest.raises(ConfigError, match="swap_strategy"):
        made.changed(combiner=as_combiner("diloco"))


def test_a_swap_hands_over_no_state_that_another_rule_or_optimizer_would_take_for_its_own() -> None:
    with bench("diloco") as run:
        run.begin((X, Y), 2, range(1))
        run.work()
        handed = run.run.trainer.hand_over()
    assert handed.optimizer is None
    with bench("fedadam") as other:
        other.begin((X, Y), 2, range(1))
        carried = other.run.trainer.take_over(handed._replace(optimizer=[np.ones(3)]))
        taken = other.run.snapshot()
    assert taken is not None
    assert not carried
    assert not any(array.any() for array in taken.progress.copied.state)


@pytest.mark.parametrize("text", ["", "[]", '{"name": "dynsgd", "parameters": {}}', "1e9"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="Expected a combiner"):
        from_text(text)
