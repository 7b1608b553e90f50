"""`tos.federated`: the rounds of the original algorithm, with more clients than slots or fewer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.support.long import few
from tos_notebook.blocks.block import epoch_order
from tos_notebook.blocks.sampling import Participants
from tos_notebook.errors import ConfigError, InvalidTransition

RATE, BATCH, ROWS, ROUNDS = 0.05, 3, 50, 4


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 4)).astype(np.float32)
    return x, (x @ [1.0, -2.0, 3.0, 0.5]).astype(np.float32)[:, None]


def linear() -> Any:
    import keras

    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")]
    )
    model.compile(keras.optimizers.SGD(RATE), "mse")
    return model


def expected(clients: int, fraction: float, seed: int) -> np.ndarray:
    """FedAvg in a few lines of NumPy."""
    x, y = data()
    cuts = [ROWS * client // clients for client in range(1, clients)]
    parts = [*zip(np.split(x, cuts), np.split(y, cuts), strict=True)]
    chosen = Participants(fraction, clients, seed)
    center = np.zeros((4, 1))
    for epoch in range(ROUNDS):
        changes, weights = [], []
        for client, (features, labels) in enumerate(parts):
            if not chosen.train(epoch, client):
                continue
            own = center.copy()
            order = epoch_order(len(features), seed, epoch, client, True)
            for start in range(0, len(order), BATCH):
                batch = order[start : start + BATCH]
                error = features[batch] @ own - labels[batch]
                own -= RATE * 2 * features[batch].T @ error / len(batch)
            changes.append(own - center)
            weights.append(len(features))
        center = center + np.average(changes, axis=0, weights=weights)
    return center


@pytest.mark.parametrize(
    ("clients", "fraction"), few([(7, 1.0), (7, 0.4), (2, 1.0), (2, 0.5)], (7, 0.4), (2, 1.0))
)
def test_rounds_are_those_of_federated_averaging(
    spark_context: Any, clients: int, fraction: float
) -> None:
    options = tos.federated(clients, ROUNDS, fraction) | {"batch_size": BATCH, "seed": 5}
    run = tos.fit(linear(), data(), verbose=False, **options)
    (weights,) = run.parameters().values()
    np.testing.assert_allclose(weights, expected(clients, fraction, 5), rtol=1e-4, atol=1e-5)
    pushes = run.history.groupby("epoch")["partition"].nunique()
    assert (
        set(pushes)
        == {Participants(fraction, clients).count}
        == set(run.history.groupby("epoch").size())
    )
    if fraction == 1:
        assert run.history["samples"].sum() == ROUNDS * ROWS


def test_a_session_takes_its_part_of_the_options(spark_context: Any) -> None:
    options = tos.federated(clients=3, rounds=2)
    with tos.TrainingSession(spark_context, linear(), **options.session) as session:
        run = session.run(data(), **options.run)
        assert run.history.groupby("epoch").size().tolist() == [3, 3]


def test_clients_keep_their_rows(spark_context: Any) -> None:
    with tos.TrainingSession(spark_context, linear()) as session:
        run = session.start(data(), 10_000, participation=0.5, partitions=2)
        with pytest.raises(InvalidTransition, match="each partition keeps its rows"):
            run.repartition(3)
        run.stop()
        with pytest.raises(ConfigError, match="repartition_every: expected none with partic"):
            session.start(data(), 2, participation=0.5, repartition_every=1)


def test_a_resumed_run_draws_the_clients_that_it_would_have_drawn(
    spark_context: Any, tmp_path: Any
) -> None:
    options = tos.federated(4, ROUNDS, 0.5) | {"batch_size": BATCH, "epochs": 2, "seed": 3}
    folder = {"checkpoint_dir": tmp_path.as_uri(), "checkpoint_every": 1}
    run = tos.fit(linear(), data(), verbose=False, **options, **folder)
    more = tos.resume(run.uri, epochs=ROUNDS).wait()
    (weights,) = more.parameters().values()
    np.testing.assert_allclose(weights, expected(4, 0.5, 3), rtol=1e-4, atol=1e-5)


def test_where_all_workers_step_together_none_may_be_left_out(spark_context: Any) -> None:
    with pytest.raises(ConfigError, match=r"participation: expected strategy='ps' with it"):
        tos.fit(linear(), data(), strategy="allreduce", participation=0.5, verbose=False)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"clients": 0}, "clients: expected a whole number of at least 1"),
        ({"rounds": 0}, "rounds: expected a whole number of at least 1"),
        ({"fraction": 0}, "fraction: expected a number above 0 and up to 1"),
        ({"client": 3}, "federated: unknown option 'client'. Did you mean clients"),
    ],
)
def test_what_is_out_of_range_is_named(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        tos.federated(**{"clients": 2, "rounds": 2} | given)
