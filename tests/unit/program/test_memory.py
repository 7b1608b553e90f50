"""A worker's arrays are its own: what it passes in is read, what it gets back stays."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.unit.program.support import Lone, Trainers
from tos_notebook.common.arrays import Array, aligned_empty
from tos_notebook.program.capture import capture
from tos_notebook.program.keras.program import KerasProgram

ROWS = 64
"""With a column of 16 float32, each batch of rows begins at an aligned address."""


def aligned(array: Array) -> Array:
    copy = aligned_empty(array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def unaligned(array: Array) -> Array:
    copy = aligned_empty(array.nbytes + 4)[4:].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def read_only(array: Array) -> Array:
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)


def frozen(array: Array) -> Array:
    copy = aligned(array)
    copy.flags.writeable = False
    return copy


def strided(array: Array) -> Array:
    return np.repeat(array, 2, axis=0)[::2]


def transposed(array: Array) -> Array:
    return np.asfortranarray(array)


def swapped(array: Array) -> Array:
    return array.astype(array.dtype.newbyteorder())


def program(*parts: Any, optimizer: Any = "sgd") -> KerasProgram:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((16,)), *parts, layers.Dense(1)])
    model.compile(optimizer, "mse")
    made = capture(model)
    assert isinstance(made, KerasProgram)
    return made


@pytest.fixture(scope="module")
def plain() -> Lone:
    """A worker to be reset before use; the tests only change what is local to it."""
    return Lone(program(), *data())


def data() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 16)).astype(np.float32)
    return x, x[:, :1].copy()


KINDS = [aligned, unaligned, read_only, frozen, strided, transposed, swapped]


@pytest.mark.parametrize("kind", KINDS)
def test_any_array_will_do(kind: Any, plain: Lone) -> None:
    """Aligned or not, contiguous or not, read-only, of the other byte order."""
    vectors = plain.program.layout.vectors(plain.buffer)
    expected = plain.runner.train(vectors, data(), 16)
    given = [kind(v) for v in vectors]
    columns = [kind(c) for c in data()]
    before = [np.array(a) for a in (*given, *columns)]
    found = plain.runner.train(given, columns, 16)
    np.testing.assert_array_equal(found.parameters[0], expected.parameters[0])
    assert found.values == expected.values
    for array, copy in zip((*given, *columns), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_columns_of_numbers_without_further_dimensions_or_elements() -> None:
    """One number in a record; and a feed that has no elements at all."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x, none = v1.placeholder(tf.float32, [None]), v1.placeholder(tf.float32, [None, 0])
        w = v1.get_variable("w", initializer=tf.zeros([]))
        train = w.assign_add(tf.reduce_sum(x) + tf.reduce_sum(none))
        session.run(w.initializer)
        made = capture(train.op, feeds=[x, none], session=session)
        lone = Lone(made, np.ones(3, np.float32), np.ones((3, 0), np.float32))
        lone.train(2)
        assert lone.tensors["w"] == 3


@pytest.mark.parametrize("dtype", ["bool", "uint16", "uint32", "uint64", "int8", "complex64"])
def test_columns_of_any_numeric_dtype(dtype: str) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(dtype, [None])
        w = v1.get_variable("w", initializer=tf.zeros([]))
        train = w.assign_add(tf.reduce_sum(tf.cast(x, tf.float32)))
        session.run(w.initializer)
        lone = Lone(capture(train.op, feeds=[x], session=session), np.ones(3, dtype))
        lone.train(2)
        lone.train(2, [aligned(np.ones(5, dtype))])
        assert lone.tensors["w"] == 8


def test_returned_parameters_keep_their_values(plain: Lone) -> None:
    """Whatever the caller does to its arrays, and whatever the program does next."""
    vectors = [aligned(v) for v in plain.program.layout.vectors(plain.program.read())]
    first = plain.runner.train(vectors, data(), 16).parameters[0]
    kept = first.copy()
    for vector in vectors:
        vector[...] = 7
    plain.runner.train(vectors, data(), 16)
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("whole", [True, False], ids=["only parameter", "beside others"])
def test_parameters_that_never_change_are_not_the_callers_memory(whole: bool) -> None:
    """The caller writes its update where the parameters were; the program must not see it."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None])
        still = v1.get_variable("still", initializer=tf.ones([16]))
        other = v1.get_variable("other", initializer=tf.ones([16]))
        train = tf.no_op() if whole else other.assign_add(tf.ones([16])).op
        session.run(v1.global_variables_initializer())
        params = [still] if whole else [still, other]
        made = capture(train, feeds=[x], session=session, params=params)
        lone = Lone(made, np.ones(4, np.float32))
    (vector,) = (aligned(v) for v in made.layout.vectors(lone.buffer))
    new = lone.runner.train([vector], lone.columns, 2).parameters[0]
    vector[...] = -5
    assert (new[:16] == 1).all()
    for variable in lone.variables.parameters:
        assert (variable.numpy() >= 1).all()


class Keeps(keras.Sequential):
    """Keeps the last batch, and the weights before the step, in variables of its own."""

    def build(self, shape: Any) -> None:
        super().build(shape)
        self.batch = tf.Variable(tf.zeros([16, 16]), trainable=False)
        self.weight = tf.Variable(tf.zeros([16, 1]), trainable=False)

    def train_step(self, data: Any) -> dict[str, Any]:
        self.batch.assign(data[0])
        self.weight.assign(self.weights[0].value.read_value())
        return super().train_step(data)


@pytest.mark.parametrize(("worker", "rows"), [(Lone, ROWS), (Trainers, ROWS), (Trainers, 16)])
def test_what_a_program_keeps_is_not_the_callers_memory(
    worker: type[Lone | Trainers], rows: int
) -> None:
    """Neither of several batches, nor of the single one of a step that is cut."""
    model = Keeps([keras.Input((16,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    made = capture(model)
    alone = worker(made, *data())
    columns = [aligned(c[-rows:]) for c in data()]
    vectors = [aligned(v) for v in made.layout.vectors(alone.buffer)]
    alone.runner.train(vectors, columns, 16)
    local = alone.runner._module.local
    kept = {v.shape.as_list()[-1]: v for v in local if v.shape.rank == 2}
    before = {size: variable.numpy().copy() for size, variable in kept.items()}
    np.testing.assert_array_equal(before[16], data()[0][-16:])
    for array in (*columns, *vectors):
        array[...] = 9
    assert sorted(kept) == [1, 16]
    for size, variable in kept.items():
        np.testing.assert_array_equal(variable.numpy(), before[size])


def test_optimizer_state_is_not_the_callers_memory() -> None:
    lone = Lone(program(optimizer="adam"), *data())
    columns = [aligned(c) for c in data()]
    vectors = [aligned(v) for v in lone.program.layout.vectors(lone.buffer)]
    lone.runner.train(vectors, columns, 16)
    before = [v.numpy().copy() for v in lone.variables.local]
    for array in (*columns, *vectors):
        array[...] = 9
    for variable, value in zip(lone.variables.local, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
