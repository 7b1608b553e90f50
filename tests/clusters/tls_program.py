"""Trains over TLS with executors in other processes, then lets strangers try; prints what came.

    python tls_program.py

Master and settings are those of ``spark-defaults.conf`` in ``SPARK_CONF_DIR``.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

import tos_notebook as tos
from tests.integration.conftest import counter
from tests.support.watching import Watch
from tos_notebook.errors import TosError
from tos_notebook.events import WorkerJoined
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.dial import connect_tcp
from tos_notebook.worker.task import Task

ROWS, EPOCHS, BOTH = 2000, 3, 2


def knock(
    host: str, port: int, attempts: dict[str, Any], partition: int, _: Any
) -> Iterator[tuple[int, dict[str, str]]]:
    """Connect from an executor, once for each attempt; yield what each was told."""
    said = {}
    for name, (secret, fingerprint) in attempts.items():
        try:
            connect_tcp(host, port, secret, fingerprint).close()
            said[name] = "let in"
        except TosError as error:
            said[name] = f"{type(error).__name__}: {error}"
    yield os.getpid(), said


def strangers(sc: Any, run: tos.Run, address: str) -> list[tuple[int, dict[str, str]]]:
    """Return what each executor is told that holds something wrong."""
    secret, pin = run.parts.task.secret, run.parts.task.fingerprint
    assert pin is not None
    attempts = {
        "right": (secret, pin),
        "wrong secret": (new_secret(), pin),
        "wrong pin": (secret, bytes(len(pin))),
        "no pin": (secret, None),
    }
    host, _, port = address.rpartition(":")
    ask = partial(knock, host, int(port), attempts)
    return list(sc.parallelize(range(BOTH), BOTH).mapPartitionsWithIndex(ask).collect())


def refused(session: tos.TrainingSession, data: Any) -> str:
    """Return the error of a run whose workers hold another secret."""

    def stranger(*given: Any) -> Task:
        return replace(Task(*given), secret=new_secret())

    with patch("tos_notebook.training.factory.Task", stranger):
        run = session.start(data)
    try:
        run.wait(120)
    except TosError as error:
        return f"{run.state}: {type(error).__name__}: {error}"
    return run.state


def averaged(spark: Any, data: Any) -> Any:
    """Return what workers count that average among themselves."""
    ring = tos.strategies.AllReduce(of="parameters", algorithm="ring")
    with tos.TrainingSession(spark, counter(), strategy=ring, batch_size=10) as session:
        return session.run(data, epochs=EPOCHS).parameters()["total"].tolist()


def main() -> None:
    """Train, let strangers try, and print both."""
    spark = tos.connect()
    sc, data, watch = spark.sparkContext, (np.arange(float(ROWS)),), Watch()
    with tos.TrainingSession(spark, counter(), combiner="downpour", batch_size=10) as session:
        run = session.run(data, epochs=EPOCHS, sinks=[watch])
        found = {
            "address": session.address,
            "driver": os.getpid(),
            "total": run.parameters()["total"].tolist(),
            "executors": sorted({e.executor for e in watch.of(WorkerJoined)}),
            "strangers": strangers(sc, run, session.address),
            "refused": refused(session, data),
        }
    found["averaged"] = averaged(spark, data)
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
