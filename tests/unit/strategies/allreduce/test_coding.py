"""All-reduce among workers with a codec: fewer bytes, the same bits on all, also after a loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.strategies.allreduce.test_allreduce import Moving, X, Y, in_one_process, parameters
from tests.unit.strategies.allreduce.test_mesh import Dying
from tos_notebook.archive.runner import Trained
from tos_notebook.archive.spec import FeedSpec, ProgramSpec
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.combiners import as_combiner
from tos_notebook.common.arrays import Array
from tos_notebook.errors import ConfigError, NonFiniteUpdate
from tos_notebook.events import CommandApplied, MilestoneCommitted, UpdateSkipped, WorkerJoined
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.steering.machine import Command
from tos_notebook.strategies import AllReduce
from tos_notebook.strategies.allreduce.settings import ReduceSettings
from tos_notebook.testing import check_strategy
from tos_notebook.testing.bench import Bench, Deadline, Trial
from tos_notebook.testing.programs import NumpyProgram, SoftmaxRegression

HALVES = ["bf16", "fp16"]


class InHalves(AllReduce):
    """All-reduce whose checks are made with a codec; whole numbers survive it."""

    def exact_settings(self) -> ReduceSettings:
        return replace(super().exact_settings(), codec=as_codecs("fp16"))


@contextmanager
def bench(
    codec: str, program: NumpyProgram | None = None, rule: str = "", **options: Any
) -> Iterator[Bench]:
    made = Trial(AllReduce(**{"algorithm": "ring"} | options), Deadline(20.0))
    made.settings = made.strategy.settings(as_combiner(rule) if rule else None, as_codecs(codec))
    with made.bench(program or SoftmaxRegression()) as run:
        yield run


@pytest.mark.parametrize("codec", HALVES)
@pytest.mark.parametrize(
    ("of", "algorithm"),
    [
        *(("gradients", "ring"), ("gradients", "halving"), ("gradients", "auto")),
        *(("parameters", "ring"), ("parameters", "direct"), ("parameters", "two_level")),
    ],
)
def test_workers_that_send_halves_train_nearly_as_one_process(
    of: str, algorithm: str, codec: str
) -> None:
    with bench(codec, of=of, algorithm=algorithm) as run:
        run.begin((X, Y), 3, range(3))
        run.work()
        found = parameters(run)
    # By plain gradient descent both are the same step. Parameters begin at 3: their own halves
    # would be off by up to 0.01 after each of the 33 steps.
    for name, value in in_one_process((X, Y), 3, 3).items():
        np.testing.assert_allclose(found[name], value, atol=0.01 if codec == "bf16" else 0.002)


def trained(program: NumpyProgram, lose: int | None, codec: str, **options: Any) -> bytes:
    with bench(codec, program, **options) as run:
        run.begin((X, Y), 3, range(3))
        run.work(lose=lose)
        assert run.rows_told() == 3 * len(X)
        return run.run.parameters.read()[0].tobytes()


@pytest.mark.parametrize(
    "options",
    [
        {"codec": "bf16"},
        {"codec": "fp16", "algorithm": "halving"},
        {"codec": "bf16", "of": "parameters"},
        {"codec": "fp16", "of": "parameters", "rule": "slowmo"},
    ],
)
@pytest.mark.parametrize("call", [0, 3, 17])
def test_a_lost_worker_changes_no_bit(options: dict[str, Any], call: int) -> None:
    undisturbed = trained(SoftmaxRegression(), None, **options)
    assert trained(Dying("gradient", 0, call), 10**6, **options) == undisturbed
    assert trained(SoftmaxRegression(), call // 4, **options) == undisturbed


@pytest.mark.parametrize("of", ["gradients", "parameters"])
@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_it_does_what_every_strategy_must(of: str, algorithm: str) -> None:
    check_strategy(InHalves(of=of, algorithm=algorithm))


class Wide(NumpyProgram):
    """Trains a vector, and counts: an integer too large for a half, and a whole statistic."""

    def __init__(self, size: int) -> None:
        specs = (
            ParameterSpec("w", (size,), "float32"),
            ParameterSpec("rows", (), "int64"),
            ParameterSpec("moving", (), "float32", trained=False),
        )
        feeds = (FeedSpec("row", "float64", ()),)
        self.spec = ProgramSpec("numpy", feeds, Layout(specs), ("loss",), False)

    def step(self, parameters: dict[str, Array], batch: tuple[Array, ...]) -> dict[str, float]:
        parameters["w"] += 0.5
        parameters["rows"] += 1_000_003
        parameters["moving"][...] = 1_000_003
        return {"loss": 0.0}


@pytest.mark.parametrize("codec", HALVES)
def test_integers_and_statistics_travel_as_they_are_and_all_else_in_half_the_bytes(
    codec: str,
) -> None:
    sent = {}
    for each in ("fp32", codec):
        with bench(each, Wide(100_000), of="parameters") as run:
            run.begin((np.arange(3.0),), 3, range(1))
            run.work()
            found = parameters(run)
            told = [event for event in run.events if isinstance(event, MilestoneCommitted)]
        assert (found["rows"], found["moving"]) == (3 + 1_000_003, 1_000_003)
        np.testing.assert_array_equal(found["w"], 3.5)
        sent[each] = sum(event.bytes_up for event in told)
    # Each worker sends 2(n - 1)/n of the vector.
    assert sent["fp32"] == pytest.approx(3 * 4 / 3 * 400_000, rel=0.01)
    assert sent[codec] == pytest.approx(sent["fp32"] / 2, rel=0.01)


@pytest.mark.parametrize("codec", HALVES)
def test_statistics_of_gradients_are_not_rounded(codec: str) -> None:
    found = []
    for each in ("fp32", codec):
        with bench(each, Moving()) as run:
            run.begin((X, Y), 2, range(3))
            run.work()
            found.append(parameters(run)["moving"].tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("of", ["gradients", "parameters"])
def test_another_codec_takes_effect_for_all_workers_at_one_step(of: str) -> None:
    with bench("fp32", of=of) as run:
        run.begin((X, Y), 3, range(30))
        ended = run.start()
        for codec in ("bf16", "fp32", "fp16"):
            run.run.change_settings(Command.SET, f"codec={codec}", codec=as_codecs(codec))
            run.wait(CommandApplied, detail=f"codec={codec}")
        ended()
        assert run.rows_told() == 30 * len(X)
        assert len([e for e in run.events if isinstance(e, WorkerJoined)]) == 3


class Overflowing(SoftmaxRegression):
    """Scales its loss; one gradient overflows, and the optimizer leaves that step out."""

    def __init__(self) -> None:
        super().__init__()
        self.scales_loss = True
        self.left_out: list[bool] = []

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Trained:
        trained = super().train(vectors, columns, batch_size)
        if (columns[0] == X[4]).all():
            trained.parameters[0][0, 0] = np.inf
        return trained

    def apply(self, parameters: dict[str, Array], gradients: dict[str, Array]) -> None:
        finite = all(np.isfinite(value).all() for value in gradients.values())
        self.left_out.append(not finite)
        if finite:
            super().apply(parameters, gradients)


def test_a_gradient_that_overflows_is_known_to_all_optimizers() -> None:
    program = Overflowing()
    with bench("bf16", program) as run:
        run.begin((X, Y), 3, range(1))
        run.work()
        assert all(np.isfinite(value).all() for value in parameters(run).values())
    assert sum(program.left_out) == 3


class Huge(SoftmaxRegression):
    """Finds once what is finite, and too large for a codec."""

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Trained:
        trained = super().train(vectors, columns, batch_size)
        if (columns[0] == X[4]).all():
            trained.parameters[0][0, 0] = 1e200
        return trained


@pytest.mark.parametrize("of", ["gradients", "parameters"])
def test_what_is_too_large_for_the_codec_ends_the_run(of: str) -> None:
    with bench("int8", Huge(), of=of, algorithm="direct") as run:
        run.begin((X, Y), 3, range(1))
        with pytest.raises((AssertionError, NonFiniteUpdate), match="Parameter 'W'"):
            run.work()


@pytest.mark.parametrize("of", ["gradients", "parameters"])
def test_what_is_too_large_for_the_codec_is_left_out_if_asked_for(of: str) -> None:
    with bench("int8", Huge(), of=of, algorithm="direct") as run:
        # The bench has no such option.
        run.run.trainer._reduction._non_finite = "skip"  # type: ignore[attr-defined]
        run.begin((X, Y), 3, range(2))
        run.work()
        assert all(np.isfinite(value).all() for value in parameters(run).values())
        # In each epoch one round of all three.
        skipped = [event for event in run.events if isinstance(event, UpdateSkipped)]
        assert len(skipped) == 2 * 3
        assert run.rows_told() == 2 * len(X)


@pytest.mark.parametrize("codec", ["int8", "bf16+ef", "bf16/int8", "topk:0.01+ef"])
@pytest.mark.parametrize("algorithm", ["ring", "halving", "two_level"])
def test_what_cannot_be_added_up_on_its_way_says_what_can(algorithm: str, codec: str) -> None:
    strategy = AllReduce(algorithm=algorithm)
    with pytest.raises(ConfigError, match=r"codec: expected 'fp32', 'bf16' or 'fp16'.*'direct'"):
        strategy.settings(None, as_codecs(codec))


def test_a_codec_of_whole_matrices_says_where_it_can_be_had() -> None:
    with pytest.raises(ConfigError, match=r"whole matrices.*allreduce:star"):
        AllReduce().settings(None, as_codecs("powersgd:4+ef"))


LOSSY = ["int8", "int4", "int8+ef", "sign+ef", "topk:0.3+ef", "topk:0.3+ef/int8", "bf16+ef"]


@pytest.mark.parametrize("codec", LOSSY)
@pytest.mark.parametrize(("of", "algorithm"), [("gradients", "direct"), ("parameters", "auto")])
def test_any_codec_learns_with_direct(of: str, algorithm: str, codec: str) -> None:
    def loss(found: dict[str, Array]) -> float:
        logits = X @ found["W"] + found["b"]
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        return float(-np.log((odds / odds.sum(axis=1, keepdims=True))[range(len(Y)), Y]).mean())

    with bench(codec, of=of, algorithm=algorithm) as run:
        run.begin((X, Y), 3, range(8))
        run.work()
        found = parameters(run)
    least = loss(in_one_process((X, Y), 3, 8))
    assert loss(found) < least + 0.15 * (np.log(3) - least)


@pytest.mark.parametrize("codec", ["int8", "int4", "fp16/int8"])
@pytest.mark.parametrize("of", ["gradients", "parameters"])
def test_without_feedback_a_lost_worker_changes_no_bit(of: str, codec: str) -> None:
    options = {"codec": codec, "of": of, "algorithm": "direct"}
    undisturbed = trained(SoftmaxRegression(), None, **options)
    assert trained(Dying("gradient", 0, 17), 10**6, **options) == undisturbed
    assert trained(SoftmaxRegression(), 3, **options) == undisturbed


@pytest.mark.parametrize("codec", ["sign+ef", "topk:0.3+ef/int8"])
def test_with_feedback_two_runs_give_the_same_bits_and_a_loss_ends_well(codec: str) -> None:
    options = {"codec": codec, "of": "parameters", "rule": "slowmo", "algorithm": "direct"}
    first = trained(SoftmaxRegression(), None, **options)
    assert trained(SoftmaxRegression(), None, **options) == first
    # The driver compares digests: what payloads have missed begins at zero on all workers.
    trained(Dying("gradient", 0, 17), 10**6, **options)
