"""Graphs built in TF1's own modes, which hold for a whole process: each in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.long import few

ROOT = Path(__file__).parents[3]

PROGRAM = """
import tensorflow.compat.v1 as tf
{mode}
import numpy as np
from tests.unit.program.support import Lone, Trainers, assert_same, batches
from tos_notebook.errors import UnsupportedProgram
from tos_notebook.program.capture import capture

def check(optimizer):
    x = tf.placeholder(tf.float32, [None, 3])
    index = tf.placeholder(tf.int32, [None])
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", initializer=tf.ones([3, 2]))
    table = tf.get_variable("table", initializer=tf.reshape(tf.range(8.0), [4, 2]))
    plain = tf.Variable(tf.ones([2]), trainable=False)
    halve = lambda i, value: (i + 1, value * 0.5)
    _, looped = tf.while_loop(lambda i, _: i < 2, halve, (0, tf.matmul(x, w)))
    error = looped - tf.nn.embedding_lookup(table, index)
    loss = tf.reduce_mean(error ** 2)
    update = plain.assign_add(tf.reduce_mean(error, 0))
    with tf.control_dependencies([update]):
        later = tf.reduce_sum(plain.read_value())
    train = optimizer.minimize(loss, global_step=step)
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    assert ("Ref" in type(w).__name__) == {references}

    rng = np.random.default_rng(0)
    columns = rng.normal(size=(7, 3)).astype("f4"), rng.integers(0, 4, 7)
    params = [w, table, plain]
    count = len(tf.get_default_graph().get_operations())
    program = capture(
        [train, update], feeds=[x, index], session=session, loss=loss, params=params,
        metrics={{"later": later, "step": step}},
    )
    lone = Lone(program, *columns)
    assert len(tf.get_default_graph().get_operations()) == count
    for _ in range(2):
        values = lone.train(3).values
        expected = []
        for x_, index_ in batches(columns, 3):
            feed = {{x: x_, index: index_}}
            expected.append(session.run([loss, later, train, update], feed)[:2])
        assert_same(list(lone.tensors.values()), session.run(params), rtol=1e-4)
        means = np.average(expected, axis=0, weights=[3, 3, 1])
        assert_same([values["loss"], values["later"]], means, rtol=1e-4)
    program.write(lone.buffer)
    assert (program.read() == lone.buffer).all()

def check_cut(optimizer, loops, refuses):
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.placeholder(tf.float32, [None, 2])
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", initializer=tf.ones([3, 2]))
    moving = tf.get_variable("moving", initializer=tf.zeros([3]), trainable=False)
    moved = tf.assign_sub(moving, 0.1 * (moving - tf.reduce_mean(x, 0)))
    bend = lambda i, value: (i + 1, tf.tanh(value))
    _, looped = tf.while_loop(lambda i, _: i < 2, bend, (0, tf.matmul(x, w)))
    looped = tf.reduce_mean((looped - y) ** 2)
    trains = [(optimizer.minimize(looped), looped)] if loops else []
    loss = tf.reduce_mean((tf.tanh(tf.matmul(x, w)) - y) ** 2)
    with tf.control_dependencies([moved]):
        train = optimizer.minimize(loss, global_step=step)
    trains.append((train, loss))
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(20, 3)).astype("f4"), rng.normal(size=(20, 2)).astype("f4")
    settings = dict(feeds=[x, y], session=session)
    for trained, loss in trains:
        program = capture(trained, loss=loss, params=[w, moving], **settings)
        whole, cut = Lone(program, *columns), Trainers(program, *columns)
        for batch in batches(columns, 2):
            assert whole.train(2, batch).values == cut.step([batch])
            assert (whole.buffer == cut.buffer).all()
            session.run(trained, dict(zip([x, y], batch)))
        assert_same(list(cut.tensors.values()), session.run([w, moving]), rtol=1e-4)
    if not refuses:
        return

    by_hand = tf.assign_sub(w, 0.1 * tf.gradients(loss, w)[0])
    row = optimizer.minimize(tf.reduce_mean(tf.nn.embedding_lookup(w, [0]) - y))
    maybe = tf.cond(loss > 0, lambda: optimizer.minimize(loss), tf.no_op)
    for refused, cause in [(by_hand, "Assign"), (row, "sparse"), (maybe, "parameter|condition")]:
        program = capture(refused, **settings)
        try:
            Trainers(program, *columns)
        except UnsupportedProgram as error:
            import re
            assert re.search(cause, str(error)), error
        else:
            raise AssertionError(cause)

optimizers = [
    lambda: tf.train.AdamOptimizer(0.05),
    lambda: tf.train.MomentumOptimizer(0.05, 0.9),
    lambda: tf.train.GradientDescentOptimizer(0.05),
    lambda: tf.train.RMSPropOptimizer(0.02, momentum=0.5),
    lambda: tf.train.AdagradOptimizer(0.2),
]
for make in optimizers[:2]:
    with tf.Graph().as_default():
        check(make())
# With variables that are resources, test_graph_cut.py tries them all. What is refused names the
# operations: Adam's are several, the others' are one each. A loop is the same for all of them.
for number, make in enumerate(optimizers[:{cut}]):
    with tf.Graph().as_default():
        check_cut(make(), loops=number == 0, refuses=number < 2)
print("trained")
"""


@pytest.mark.parametrize(
    ("mode", "references", "cut"),
    # With so many of its optimizers.
    few(
        [
            ("tf.disable_v2_behavior()", True, 2),
            ("tf.disable_v2_behavior()", True, 5),
            ("tf.disable_eager_execution()", False, 1),
        ],
        ("tf.disable_v2_behavior()", True, 2),
    ),
)
def test_a_graph_of_any_mode_trains_as_in_its_session(
    mode: str, references: bool, cut: int
) -> None:
    """Reads, updates, sparse updates, loops, and reads that wait for an update."""
    code = PROGRAM.format(mode=mode, references=references, cut=cut)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout == "trained\n", done.stderr[-4000:]
