"""Embeddings: which are tables, and which rows of them a captured step has changed."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import tos_notebook as tos
from tests.unit.program.support import Lone
from tos_notebook.program.keras.embeddings import _is_large, gathering

ROWS, WIDTH, BATCH = 4000, 64, 16


def model(optimizer: Any = "sgd", rows: int = ROWS, **options: Any) -> Any:
    """Return a compiled model of pairs, one of whose two embeddings is a large one."""
    keras.utils.set_random_seed(0)
    pair = keras.Input((2,), dtype="int32")
    large = keras.layers.Embedding(rows, WIDTH, name="large", **options)(pair[:, 0])
    small = keras.layers.Embedding(50, 4, name="small")(pair[:, 1])
    made = keras.Model(pair, keras.layers.Dense(1)(keras.layers.Concatenate()([large, small])))
    made.compile(optimizer, "mse")
    return made


def data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    pairs = np.stack([random.integers(0, n, 3 * BATCH) for n in (ROWS, 50)], 1).astype(np.int32)
    return pairs, random.normal(size=(3 * BATCH, 1)).astype(np.float32)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, ["large/embeddings"]), ({"rows": 1000}, []), ({"trainable": False}, [])],
    ids=str,
)
def test_large_embeddings_that_are_trained_are_tables(changes: Any, expected: list[str]) -> None:
    layout = tos.capture(model(**changes)).layout
    assert [spec.name for spec in layout.specs if spec.by_row] == expected


def test_gradients_that_are_added_up_are_of_no_table() -> None:
    assert tos.capture(model()).for_gradients().layout.tables == ()


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_rows_are_trained_as_the_whole_table_is_to_the_bit(optimizer: str) -> None:
    """From what others have changed meanwhile, and with the rows that the step has changed."""
    whole, rows = (Lone(tos.capture(model(optimizer)), *data(0)) for _ in range(2))
    layout = rows.program.layout
    moved: list[Any] = [None]
    (table,), dense = layout.table_arrays(rows.buffer), layout.dense_vectors(rows.buffer)
    for seed in range(3):
        columns = data(seed)
        whole.train(BATCH, columns)
        vectors = layout.vectors(rows.buffer)
        found = rows.runner.train_rows(vectors, moved, columns, BATCH)
        assert found is not None
        (changed,) = found.tables
        assert changed.ids is not None
        assert changed.ids.tolist() == sorted(set(columns[0][:, 0].tolist()))
        table[changed.ids] = changed.values
        names = [spec.name for spec in layout.specs if not spec.by_row]
        tensors = layout.tensors(rows.buffer)
        for name, value in zip(names, found.parameters, strict=True):
            tensors[name][...] = value
        assert whole.buffer.tobytes() == rows.buffer.tobytes()
        # What a worker adopts of others.
        for lone in (whole, rows):
            lone.program.layout.table_arrays(lone.buffer)[0][7] += 1
        moved = [np.array([7])]
    assert dense


@pytest.mark.parametrize(
    "optimizer", ["adam", keras.optimizers.SGD(0.1, momentum=0.9)], ids=["adam", "momentum"]
)
def test_an_optimizer_that_moves_other_rows_has_none_to_tell(optimizer: Any) -> None:
    lone = Lone(tos.capture(model(optimizer)), *data(0))
    vectors = lone.program.layout.vectors(lone.buffer)
    assert lone.runner.train_rows(vectors, [None], data(0), BATCH) is None
    assert lone.train(BATCH).parameters


def test_a_regularizer_of_the_table_changes_all_rows() -> None:
    lone = Lone(tos.capture(model(embeddings_regularizer="l2")), *data(0))
    vectors = lone.program.layout.vectors(lone.buffer)
    assert lone.runner.train_rows(vectors, [None], data(0), BATCH) is None


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float32"])
def test_a_layer_reads_the_same_rows_while_a_step_is_traced(dtype: str) -> None:
    made = model()
    layer = made.get_layer("large")
    ids = tf.constant([[0, 5], [9, 5]], dtype)
    expected = layer(ids)
    with gathering(made):
        assert "call" in vars(layer)
        assert np.array_equal(layer(ids), expected)
        assert np.array_equal(layer.call(tf.constant([-1])), layer.embeddings[-1:])
    assert "call" not in vars(layer)


class Normed(keras.layers.Embedding):
    """Reads rows of length 1."""

    @property
    def embeddings(self) -> Any:
        return keras.ops.normalize(self._embeddings)


def test_a_layer_that_makes_its_table_of_a_variable_reads_what_it_makes() -> None:
    pair = keras.Input((2,), dtype="int32")
    made = keras.Model(pair, keras.layers.Dense(1)(Normed(ROWS, WIDTH)(pair[:, 0])))
    made.compile("sgd", "mse")
    layer, ids = made.layers[-2], tf.constant([0, 5])
    expected = layer(ids)
    with gathering(made):
        assert np.array_equal(layer(ids), expected)
    lone = Lone(tos.capture(made), *data(0))
    vectors = lone.program.layout.vectors(lone.buffer)
    # Its gradient is of all rows.
    assert lone.runner.train_rows(vectors, [None], data(0), BATCH) is None


def test_a_table_whose_rows_have_longer_numbers_than_are_sent_is_exchanged_whole() -> None:
    class Weight(NamedTuple):
        shape: tuple[int, int]
        dtype: str = "float32"
        trainable: bool = True

    assert _is_large(Weight((1 << 32, 1)))
    assert not _is_large(Weight(((1 << 32) + 1, 1)))
