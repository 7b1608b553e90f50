"""A served embedding in a model, and as its program sees it: as Keras' own, of some rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tos_notebook.blocks.block import ColumnSpec
from tos_notebook.common.arrays import Array
from tos_notebook.common.served import ServedTable
from tos_notebook.errors import CaptureError, ConfigError, DataError, UnsupportedProgram
from tos_notebook.layers import ServedEmbedding
from tos_notebook.program.capture import capture
from tos_notebook.runtime.runner import TensorFlowRunner
from tos_notebook.runtime.served import Forward

ROWS = 50


def model_of(layer: Any, optimizer: Any = "sgd", width: int = 4) -> Any:
    """Return a compiled model of one embedding."""
    keras.utils.set_random_seed(0)
    ids = keras.Input((2,), dtype="int32", name="ids")
    hidden = keras.layers.Flatten()(layer(ids))
    model = keras.Model(ids, keras.layers.Dense(1, name="dense")(hidden))
    model.compile(optimizer, "mse")
    return model


def served(**options: Any) -> ServedEmbedding:
    return ServedEmbedding(ROWS, 4, **{"cache_rows": 30, "name": "rows", **options})


IDS = np.random.default_rng(0).integers(5, 25, (24, 2)).astype(np.int32)
LABELS = np.random.default_rng(1).random((24, 1), np.float32)


def runner_of(program: Any) -> TensorFlowRunner:
    return TensorFlowRunner(program.export([("int32", (2,)), ("float32", (1,))]))


def trained(program: Any) -> tuple[TensorFlowRunner, Array, Array]:
    """Train all rows once by batches of 8; return which rows of the table, and what they became."""
    runner = runner_of(program)
    (table,) = program.layout.served
    (ids,) = runner.served_ids([IDS, LABELS])
    runner.place_rows([ids], [table.begin(ids)])
    runner.train(program.layout.vectors(program.read()), [IDS, LABELS], 8)
    (rows,) = runner.take_rows([ids])
    return runner, ids, rows


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: keras.optimizers.SGD(0.1),
        lambda: keras.optimizers.SGD(0.1, momentum=0.9),
        lambda: keras.optimizers.Adam(0.01),
    ],
    ids=["sgd", "momentum", "adam"],
)
def test_rows_are_trained_as_those_of_keras_own_layer(optimizer: Any) -> None:
    program = capture(model_of(served(), optimizer()))
    theirs = model_of(keras.layers.Embedding(ROWS, 4, name="rows"), optimizer())
    (table,) = program.layout.served
    theirs.get_layer("rows").set_weights([table.begin(np.arange(ROWS))[:, :4]])
    theirs.fit(IDS, LABELS, 8, shuffle=False, verbose=0)
    _, ids, rows = trained(program)
    assert ids.tolist() == np.unique(IDS).tolist()
    (expected,) = theirs.get_layer("rows").get_weights()
    assert np.allclose(rows[:, :4], expected[ids], atol=1e-6)
    assert not np.allclose(rows[:, :4], table.begin(ids)[:, :4], atol=1e-4)


def test_the_program_exchanges_neither_the_rows_nor_what_the_optimizer_keeps_of_them() -> None:
    program = capture(model_of(served(), keras.optimizers.Adagrad(0.1)))
    assert [spec.name for spec in program.layout.specs] == ["dense/kernel", "dense/bias"]
    assert len(program.optimizer_state) == 2
    assert program.frozen == ""
    (table,) = program.layout.served
    assert (table.name, table.rows, table.width, table.capacity) == ("rows", ROWS, 4, 30)
    assert table.kept == pytest.approx((0.1,))


def test_a_layer_gives_rows_as_they_begin_and_of_any_shape() -> None:
    layer = served()
    ids = np.array([[3, 7], [3, 49]])
    found = np.asarray(layer(ids))
    assert found.shape == (2, 2, 4)
    assert np.array_equal(found, layer.table.begin(ids.reshape(-1)).reshape(2, 2, 4))
    assert np.array_equal(found, np.asarray(served()(ids)))


def test_an_id_beyond_the_table_is_named() -> None:
    with pytest.raises(DataError, match=r"'rows': expected ids from 0 to 49, got 50"):
        served()(np.array([50]))


def test_keras_own_fit_says_where_the_layer_trains() -> None:
    with pytest.raises(CaptureError, match="trains on Spark only"):
        model_of(served()).fit(IDS, LABELS, verbose=0)


def test_a_model_survives_a_file_and_its_configuration(tmp_path: Path) -> None:
    model = model_of(served(seed=7, embeddings_initializer="he_normal"))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.get_layer("rows").table == model.get_layer("rows").table
    assert np.array_equal(again.predict(IDS, verbose=0), model.predict(IDS, verbose=0))


@pytest.mark.parametrize(
    ("initializer", "low", "high"),
    [("uniform", -0.05, 0.05), ("zeros", 0, 0), ("ones", 1, 1), ("glorot_uniform", -1, 1)],
)
def test_rows_begin_as_keras_would_begin_them(initializer: str, low: float, high: float) -> None:
    layer = ServedEmbedding(1000, 8, initializer)
    rows = layer.table.begin(np.arange(1000))
    theirs = np.asarray(keras.initializers.get(initializer)((1000, 8)))
    assert low <= rows.min() <= rows.max() <= high
    assert rows.std() == pytest.approx(theirs.std(), rel=0.05)


def test_an_initializer_of_the_whole_table_is_refused() -> None:
    with pytest.raises(ConfigError, match="embeddings_initializer: expected one that gives each"):
        ServedEmbedding(10, 10, "orthogonal")


def test_an_optimizer_that_keeps_no_rows_by_themselves_is_refused() -> None:
    model = model_of(served(), keras.optimizers.Lamb())
    with pytest.raises(UnsupportedProgram, match="expected an optimizer that trains each value"):
        capture(model)


def test_a_model_of_nothing_else_is_refused() -> None:
    ids = keras.Input((), dtype="int32")
    model = keras.Model(ids, served()(ids))
    model.compile("sgd", "mse")
    with pytest.raises(UnsupportedProgram, match="nothing but served embeddings"):
        capture(model)


class Recommender(keras.Model):
    """The model of Keras' own example of a recommender, whose users and items are served."""

    def __init__(self) -> None:
        super().__init__()
        self.users = ServedEmbedding(ROWS, 4, "he_normal", name="users")
        self.user_bias = ServedEmbedding(ROWS, 1, "zeros", name="user_bias")
        self.items = ServedEmbedding(ROWS, 4, "he_normal", name="items")
        self.item_bias = keras.layers.Embedding(ROWS, 1)

    def call(self, pairs: Any) -> Any:
        users, items = self.users(pairs[:, 0]), self.items(pairs[:, 1])
        match = keras.ops.sum(users * items, axis=1, keepdims=True)
        bias = self.user_bias(pairs[:, 0]) + self.item_bias(pairs[:, 1])
        return keras.ops.sigmoid(match + bias)


def test_a_subclass_that_computes_its_ids_trains_several_tables() -> None:
    model = Recommender()
    model(IDS)
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
    program = capture(model)
    assert [table.name for table in program.layout.served] == ["users", "user_bias", "items"]
    runner, columns = runner_of(program), [IDS, LABELS]
    users, items = np.unique(IDS[:, 0]).tolist(), np.unique(IDS[:, 1]).tolist()
    ids = runner.served_ids(columns)
    assert [each.tolist() for each in ids] == [users, users, items]
    before = [t.begin(i) for t, i in zip(program.layout.served, ids, strict=True)]
    runner.place_rows(ids, before)
    runner.train(program.layout.vectors(program.read()), columns, 8)
    for old, new in zip(before, runner.take_rows(ids), strict=True):
        assert (old != new).any(axis=1).all()


class Shifted(keras.Model):
    """A subclass that asks for other rows in training than in prediction."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = served()
        self.dense = keras.layers.Dense(1)

    def call(self, ids: Any, training: bool = False) -> Any:
        return self.dense(self.rows(ids[:, 0] + (1 if training else 0)))


def test_a_step_that_asks_for_other_rows_fails_and_says_so() -> None:
    model = Shifted()
    model(IDS)
    model.compile("sgd", "mse")
    with pytest.raises(tf.errors.InvalidArgumentError, match="is asked for ids in training"):
        trained(capture(model))


def test_a_packed_model_finds_the_rows_that_a_batch_needs(tmp_path: Path) -> None:
    program = capture(model_of(served()))
    program.serve([ColumnSpec("int32", (2,))], tmp_path / "model.zip")
    asked: list[Array] = []

    def find(number: int, ids: Array) -> Array:
        asked.append(ids)
        return np.repeat(ids[:, None], 4, 1).astype(np.float32)

    forward = Forward(tmp_path / "model.zip", find)
    assert forward.signature.served == (
        ServedTable("rows", ROWS, 4, 30, program.layout.served[0].first),
    )
    (found,) = forward([IDS], 8)
    kernel, bias = program.model.get_layer("dense").get_weights()
    expected = np.repeat(IDS.reshape(24, 2, 1), 4, 2).reshape(24, 8) @ kernel + bias
    assert np.allclose(found, expected, atol=1e-4)
    assert [ids.tolist() for ids in asked] == [
        np.unique(IDS[i : i + 8]).tolist() for i in (0, 8, 16)
    ]
    with pytest.raises(DataError, match=r"expected ids from 0 to 49, got -1"):
        forward([np.array([[-1, 3]], np.int32)], 8)
