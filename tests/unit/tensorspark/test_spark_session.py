"""The original's program and the facts of its API, on real Spark."""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.support.long import few
from tests.unit.data import mnist
from tests.unit.tensorspark import replay
from tos_notebook.errors import ConfigError, TransportError

ROOT = Path(__file__).parents[3]


@pytest.mark.long
def test_original_program_reaches_what_its_order_of_milestones_gives(tmp_path: Path) -> None:
    digits = mnist.half_of_digits(tmp_path)
    program = Path(__file__).with_name("mission_program.py")
    done = subprocess.run(
        [sys.executable, str(program), str(digits.folder), str(digits.batch_size)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_MASTER": "local[2]"},
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["tested"] == digits.tested
    mean, spread = replay.expected(digits.folder, digits.batch_size, found["epochs"])
    assert found["accuracy"] == pytest.approx(mean, abs=spread)


@pytest.fixture(scope="module")
def sps() -> ModuleType:
    """The module, imported in another thread: it makes a graph its thread's default."""
    loaded: list[ModuleType] = []
    name = "tos_notebook.tensorspark.spark_session"
    thread = threading.Thread(target=lambda: loaded.append(importlib.import_module(name)))
    thread.start()
    thread.join(120)
    return loaded[0]


class Model:
    """A linear model y = w x of one weight, in a session."""

    def __init__(self) -> None:
        import tensorflow as tf

        v1 = tf.compat.v1
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = v1.placeholder(tf.float32, [None])
            self.y = v1.placeholder(tf.float32, [None])
            self.rate = v1.placeholder(tf.float32, [])
            self.w = v1.get_variable("w", initializer=0.0)
            self.loss = tf.reduce_mean((self.w * self.x - self.y) ** 2)
            self.train = v1.train.GradientDescentOptimizer(self.rate).minimize(self.loss)
            self.session = v1.Session()
            self.session.run(v1.global_variables_initializer())


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model()
    yield model
    model.session.close()


@pytest.fixture
def rdd(spark_context: Any) -> Any:
    x = np.linspace(-1, 1, 200, dtype=np.float32)
    return spark_context.parallelize(list(zip(x, 3 * x, strict=True)), 2)


def _options(model: Model, rdd: Any, **others: Any) -> dict[str, Any]:
    names = [model.x.name, model.y.name]
    return {"feed_rdd": rdd, "feed_name_list": names, "feed_dict": {model.rate: 0.3}} | others


def test_without_an_rdd_it_is_a_plain_session_run(
    sps: ModuleType, spark_context: Any, model: Model
) -> None:
    with sps.SparkSession(spark_context, model.session) as session:
        found = session.run(model.loss, feed_dict={model.x: [1.0], model.y: [2.0]})
    assert found == 4.0


@pytest.mark.parametrize(
    "name", few(["default", "mean", "update mean", "delta", "own"], "default", "own")
)
def test_every_kind_of_weight_combiner_trains(
    sps: ModuleType, spark_context: Any, model: Model, rdd: Any, name: str
) -> None:
    from tos_notebook.tensorspark import weight_combiner as comb

    class Newest:
        def compute(
            self, origin_weight: Any, new_weight: Any, worker_id: int = -1, name: str | None = None
        ) -> Any:
            return new_weight

    combiners = {
        "default": None,
        "mean": comb.MeanWeightCombiner(2),
        "update mean": comb.UpdateMeanWeightCombiner(),
        "delta": comb.DeltaWeightCombiner(),
        "own": Newest(),
    }
    with sps.SparkSession(
        spark_context, model.session, server_port=0, sync_interval=2, batch_size=5
    ) as session:
        for _ in range(3):
            session.run(
                model.train,
                **_options(model, rdd, weight_combiner=combiners[name], param_list=[model.w]),
                server_reusable=True,
            )
    assert model.session.run(model.w) == pytest.approx(3.0, abs=0.1)


def test_server_is_kept_where_it_is_reusable_and_stopped_otherwise(
    sps: ModuleType, spark_context: Any, model: Model, rdd: Any
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    session = sps.SparkSession(
        spark_context, model.session, server_host="127.0.0.1", server_port=port, batch_size=50
    )
    session.run(model.train, **_options(model, rdd), server_reusable=True)
    with socket.create_connection(("127.0.0.1", port), 5):
        pass
    session.run(model.train, **_options(model, rdd))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)
    session.close()
    session.stop_param_server()


def test_port_in_use_is_named(sps: ModuleType, spark_context: Any, model: Model, rdd: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        session = sps.SparkSession(
            spark_context, model.session, server_host="127.0.0.1", server_port=port
        )
        with pytest.raises(TransportError, match=rf"{port}.*server_port"):
            session.run(model.train, **_options(model, rdd))


def test_missing_feed_names_are_asked_for(
    sps: ModuleType, spark_context: Any, model: Model, rdd: Any
) -> None:
    session = sps.SparkSession(spark_context, model.session)
    with pytest.raises(ConfigError, match="feed_name_list"):
        session.run(model.train, feed_rdd=rdd)


def test_files_go_where_user_and_name_say(
    sps: ModuleType,
    spark_context: Any,
    model: Model,
    rdd: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sps, "temporary_directory", f"file://{tmp_path}")
    session = sps.SparkSession(
        spark_context, model.session, user="ann", name="line", server_port=0, batch_size=50
    )
    session.run(model.train, **_options(model, rdd))
    assert any(p.suffix == ".zip" for p in (tmp_path / "ann" / "line").iterdir())
