"""Updates and replies in few bytes, over connections."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import NumpyProgram, SoftmaxRegression, digits
from tests.support.threads import LIMIT, Aside
from tests.unit.worker.support import Frail, center, counting_training, join, of, push
from tos_notebook.archive.runner import Trained
from tos_notebook.archive.spec import FeedSpec, ProgramSpec
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.combiners import EASGD, Combiner, Downpour, FedAsync, FedAvg, Median
from tos_notebook.common.arrays import Array
from tos_notebook.errors import ConfigError, ConnectionClosed, NonFiniteUpdate, RemoteProtocolError
from tos_notebook.events import MilestoneCommitted
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.steering.machine import Command
from tos_notebook.steering.sync import as_sync

KINDS = pytest.mark.parametrize("kind", ["inproc", "tcp"])
FEATURES, CLASSES = 64, 16
LOSSY = ["bf16", "fp16", "int8", "int4", "sign+ef", "topk:0.05+ef", "powersgd:2+ef"]
TOLD = {"bf16": 1.5, "int8": 3, "int4": 6, "sign+ef": 10, "topk:0.05+ef": 5}
"""Times by which a codec makes the little model of these tests smaller, at least."""


def softmax() -> SoftmaxRegression:
    return SoftmaxRegression(FEATURES, CLASSES, "float32", rate=0.2)


def accuracy(training: Any, x: Array, y: Array) -> float:
    found = center(training)
    return float(((x @ found["W"] + found["b"]).argmax(axis=1) == y).mean())


def train(
    serve: Any,
    codec: str,
    combiner: Combiner | None = None,
    kind: str = "inproc",
    epochs: int = 6,
    sync: str = "asp",
    noise: float = 0,
) -> tuple[Any, list[Any], float]:
    """Train digits by two workers in turn; return training, milestones and the accuracy."""
    x, y = digits(640, FEATURES, CLASSES)
    x = (x + noise * np.random.default_rng(1).standard_normal(x.shape)).astype(np.float32)
    training, events = counting_training(
        *(2, epochs, combiner or Downpour(), 2),
        program=softmax(),
        columns=(x, y),
        codec=as_codecs(codec),
        sync=as_sync(sync),
    )
    served = serve(training, kind)
    workers = [
        Aside(lambda p=p: served.work(softmax(), p, task=p, batch_size=16, columns=2, shuffle=True))
        for p in range(2)
    ]
    for worker in workers:
        worker.result()
    return training, of(MilestoneCommitted, events), accuracy(training, x, y)


def ratio(training: Any, pushed: list[Any]) -> float:
    """How many times fewer bytes have travelled than without a codec, both ways together."""
    travelled = sum(event.bytes_up + event.bytes_down for event in pushed)
    return float(2 * training.store.layout.nbytes * len(pushed) / travelled)


NOISE = 6
"""So much that classes overlap, and that no model finds all labels."""
WORSE = 0.08
"""Of the accuracy; two trainings without a codec differ by up to 0.03."""


@KINDS
@pytest.mark.parametrize("codec", LOSSY)
def test_a_model_learns_as_well_with_fewer_bytes(serve: Any, codec: str, kind: str) -> None:
    plain = train(serve, "fp32", noise=NOISE)[2]
    assert 0.75 < plain < 0.95
    training, pushed, found = train(serve, codec, kind=kind, noise=NOISE)
    assert found > plain - WORSE
    assert ratio(training, pushed) >= TOLD.get(codec, 1.5)


def test_without_a_codec_everything_travels_as_it_is(serve: Any) -> None:
    training, pushed, _ = train(serve, "fp32")
    assert ratio(training, pushed) == 1


def test_updates_and_replies_may_travel_by_different_codecs(serve: Any) -> None:
    training, pushed, found = train(serve, "topk:0.05+ef/fp32")
    assert found > 0.95
    up, down = (
        sum(getattr(event, name) for event in pushed) for name in ("bytes_up", "bytes_down")
    )
    assert down == len(pushed) * training.store.layout.nbytes
    assert up < down / 8


@pytest.mark.parametrize("combiner", [EASGD(alpha=0.4), FedAsync()])
@pytest.mark.parametrize("codec", ["int8", "sign+ef"])
def test_rules_that_take_parameters_get_them_whole(
    serve: Any, codec: str, combiner: Combiner
) -> None:
    _, _, found = train(serve, codec, combiner, epochs=10)
    assert found > 0.95


@KINDS
def test_who_waits_for_others_gets_what_is_newest_encoded(serve: Any, kind: str) -> None:
    training, pushed, found = train(serve, "int8", FedAvg(), kind, epochs=10, sync="bsp")
    assert found > 0.95
    assert ratio(training, pushed) >= 3


class Steps(NumpyProgram):
    """Adds to the parameters what it is fed, in float32."""

    def __init__(self, size: int = 600) -> None:
        super().__init__()
        layout = Layout([ParameterSpec("w", (size,), "float32")])
        feed = FeedSpec("row", "float32", (size,))
        self.spec = ProgramSpec("numpy", (feed,), layout, ("loss",), False)

    def step(self, parameters: dict[str, Array], batch: tuple[Array, ...]) -> dict[str, float]:
        parameters["w"] += batch[0].sum(axis=0)
        return {"loss": 0.0}


def rows(count: int, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    return random.normal(size=(count, 600)).astype(np.float32)


def stepping(data: Array, codec: str = "topk:0.05+ef", **options: Any) -> Any:
    """Return a run whose updates leave out most of what they are."""
    codecs = as_codecs(codec)
    return counting_training(program=Steps(), columns=(data,), codec=codecs, **options)[0]


def missing(training: Any, data: Array) -> Array:
    """What was trained and is not in the center: it must be in the worker's memory."""
    return np.asarray(data.astype(np.float64).sum(axis=0) - center(training)["w"])


def test_what_an_update_leaves_out_is_kept_over_epochs(serve: Any) -> None:
    """The last row is fed as zeros for long enough to empty the memory."""
    data = np.concatenate([rows(3), np.zeros((40, 600), np.float32)])
    training = stepping(data, epochs=2)
    serve(training).work(Steps(), columns=1)
    np.testing.assert_allclose(center(training)["w"], 2 * data.sum(axis=0), atol=1e-5)


@pytest.mark.parametrize("codec", ["fp32", "sign+ef", "fp32/int8"])
def test_what_was_left_out_goes_along_when_the_codec_changes(serve: Any, codec: str) -> None:
    data = rows(12)
    training = stepping(data)
    program = Steps()

    def switch(number: int) -> None:
        if number == 8:
            training.change_settings(Command.SET, "", codec=as_codecs(codec))

    program.on_batch = switch
    serve(training).work(program, columns=1)
    if codec.startswith("fp32"):
        np.testing.assert_allclose(missing(training, data), 0, atol=1e-5)
    else:
        assert 0 < np.abs(missing(training, data)).max() < np.abs(data.sum(axis=0)).max()


@pytest.mark.parametrize("delivered", [False, True])
@pytest.mark.parametrize("number", [0, 1, 5])
def test_a_later_attempt_finds_what_an_earlier_one_has_kept(
    serve: Any, tmp_path: Path, number: int, delivered: bool
) -> None:
    """Whether its last push got through or not: the outcome is that of one attempt, to the bit."""
    whole = stepping(rows(12))
    serve(whole).work(Steps(), columns=1)

    training = stepping(rows(12))
    served = serve(training)
    folder = tmp_path / "executor"
    folder.mkdir()
    frail = Frail(served.connect(), number, delivered)
    with pytest.raises(ConnectionClosed):
        served.work(Steps(), columns=1, connection=frail, folder=folder)
    served.work(Steps(), task=100, columns=1, folder=folder)
    np.testing.assert_allclose(center(training)["w"], center(whole)["w"], atol=1e-5)
    assert len(list(folder.iterdir())) == 1


def test_without_its_folder_a_later_attempt_begins_with_nothing(serve: Any) -> None:
    """So the test above can fail."""
    whole = stepping(rows(12))
    serve(whole).work(Steps(), columns=1)
    training = stepping(rows(12))
    served = serve(training)
    with pytest.raises(ConnectionClosed):
        served.work(Steps(), columns=1, connection=Frail(served.connect(), 5, False))
    served.work(Steps(), task=100, columns=1)
    assert np.abs(center(training)["w"] - center(whole)["w"]).max() > 0.1


def test_a_codec_may_be_chosen_and_left_while_workers_train(serve: Any) -> None:
    """Through every kind of change, with two workers and rules that take parameters, too."""
    x, y = digits(960, FEATURES, CLASSES)
    training, _ = counting_training(
        *(2, 4, FedAsync(), 2), program=softmax(), columns=(x.astype(np.float32), y)
    )
    served = serve(training)
    names = ["int8", "sign+ef", "fp32", "int4/fp32", "fp32/bf16", "topk:0.1+ef", "fp32"]
    together = threading.Barrier(2)

    def switch(number: int) -> None:
        if number == 0:
            together.wait(LIMIT)
        elif number % 10 == 0 and names:
            training.change_settings(Command.SET, "", codec=as_codecs(names.pop(0)))

    programs = [softmax(), softmax()]
    programs[0].on_batch = switch
    programs[1].on_batch = lambda number: number or together.wait(LIMIT)
    workers = [
        Aside(lambda p=p: served.work(programs[p], p, p, batch_size=16, columns=2))
        for p in range(2)
    ]
    for worker in workers:
        worker.result()
    assert not names
    assert accuracy(training, x, y) > 0.95


@pytest.mark.parametrize("codec", ["int8", "sign+ef", "topk:0.05+ef", "powersgd:2+ef"])
def test_an_update_that_is_not_finite_is_refused_by_name(serve: Any, codec: str) -> None:
    class Diverging(Steps):
        def step(self, parameters: dict[str, Array], batch: Any) -> dict[str, float]:
            parameters["w"][7] = np.inf if len(self.batches) == 3 else 0.0
            return super().step(parameters, batch)

    columns = (rows(4),)
    training, _ = counting_training(1, 1, program=Steps(), columns=columns, codec=as_codecs(codec))
    serve(training).work(Diverging(), columns=1)
    assert isinstance(training.error, NonFiniteUpdate)
    assert "'w': expected finite values, got 1 of 600" in str(training.error)


def test_what_is_left_out_as_not_finite_loses_nothing_that_was_kept(serve: Any) -> None:
    data = np.concatenate([rows(3), np.zeros((40, 600), np.float32)])
    data[3] = np.nan
    training = stepping(data, non_finite="skip")
    serve(training).work(Steps(), columns=1)
    np.testing.assert_allclose(center(training)["w"], data[:3].sum(axis=0), atol=1e-5)


def test_a_rule_that_compares_updates_refuses_a_codec_that_sends_a_part_of_them() -> None:
    training, _ = counting_training(combiner=Median())
    with pytest.raises(ConfigError, match=r"median compares whole updates, but codec topk"):
        training.change_settings(Command.SET, "", codec=as_codecs("topk:0.1+ef"))
    with pytest.raises(ConfigError, match=r"median compares whole updates"):
        counting_training(combiner=Median(), codec=as_codecs("topk:0.1+ef/fp32"))
    training.change_settings(Command.SET, "", codec=as_codecs("int8/topk:0.1+ef"))


@pytest.mark.parametrize("garbage", [False, True], ids=["too short", "garbage"])
def test_what_no_encoder_writes_is_refused_and_the_run_goes_on(serve: Any, garbage: bool) -> None:
    training = stepping(rows(4), codec="int8")
    served = serve(training)
    nbytes = as_codecs("int8").up.bind(training.store.layout).nbytes
    connection = served.connect()
    connection.request(join())
    with pytest.raises(RemoteProtocolError, match="scales" if garbage else f"or {nbytes} bytes"):
        connection.request(push(), b"\xff" * (nbytes if garbage else nbytes - 1))
    assert training.store.version == 0
    served.work(Steps(), task=100, columns=1)
    assert np.abs(missing(training, rows(4))).max() < 0.2


class Following(Steps):
    """Notes how far what it begins with is from the center, as a part of the last step."""

    def __init__(self, training: Any) -> None:
        super().__init__()
        self._training = training
        self.apart: list[float] = []

    def train(self, vectors: Any, columns: Any, batch_size: int) -> Trained:
        apart = np.abs(vectors[0][:600] - center(self._training)["w"]).max()
        self.apart.append(float(apart / np.abs(columns[0]).max()))
        return super().train(vectors, columns, batch_size)


@pytest.mark.parametrize("kind", ["inproc", "tcp", "tcp without shared memory"])
@pytest.mark.parametrize("codec", ["fp16", "int8", "fp32/int8", "int8/fp32"])
def test_a_worker_goes_on_from_where_the_centre_is(
    serve: Any, kind: str, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the codec's rounding of one step, also after the codec was changed and changed back."""
    if "without" in kind:
        monkeypatch.setattr("tos_notebook.strategies.ps.trainer.attach", lambda name, nbytes: None)
    training = stepping(rows(40), codec=codec)
    program = Following(training)
    changes = {10: "fp32", 20: codec, 30: "bf16"}

    def change(number: int) -> None:
        if number in changes:
            training.change_settings(Command.SET, "", codec=as_codecs(changes[number]))

    program.on_batch = change
    serve(training, kind.split()[0]).work(program, columns=1)
    assert len(program.apart) == 40
    assert max(program.apart) < 0.02
