"""What codecs save in traffic, and cost in accuracy and throughput.

python -m benchmarks.throughput.codecs [--quick]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import mean, median
from typing import Any
from unittest.mock import patch

import tos_notebook as tos

from ..lib.data import Labelled, mnist
from ..lib.harness import Row, program
from ..lib.models import TWO_NN, accuracy_of, network, seeded_network
from ..lib.ours import BATCH_SIZE, measure, spark

PLAIN = "fp32"
CODECS = ("bf16", "fp16", "int8", "int4", "sign+ef", "topk:0.01+ef", "powersgd:4+ef")
JUDGED = {"int8": ">= 3.9", "sign+ef": ">= 25"}
"""Those with a goal, and by how many times less is to travel."""
EPOCHS = 5
SYNC_INTERVAL = 10


@contextmanager
def training(
    cluster: Any, model: Any, codec: str, sync: str = "asp"
) -> Iterator[tos.TrainingSession]:
    """Open a session whose workers exchange every 10 steps."""
    with tos.TrainingSession(
        cluster, model, codec=codec, sync=sync, sync_interval=SYNC_INTERVAL, batch_size=BATCH_SIZE
    ) as session:
        yield session


def learn(
    cluster: Any, codec: str, seeds: Sequence[int], data: Labelled, test: Labelled
) -> tuple[list[float], float]:
    """Return the accuracy for each seed, and the bytes of a sample, both ways together.

    Workers wait for each other, so that nothing but seed and codec decides the outcome: the order
    of asynchronous pushes alone moves it by half a point.
    """
    found, each = [], []
    for seed in seeds:
        model = seeded_network("SGD", seed)
        with training(cluster, model, codec, "bsp") as session:
            history = session.run(data, EPOCHS, seed=seed).history
        travelled = int(history["bytes_up"].sum() + history["bytes_down"].sum())
        each.append(travelled / int(history["samples"].sum()))
        found.append(accuracy_of(model, test))
    return found, mean(each)


def accuracies(cluster: Any, codecs: Sequence[str], quick: bool) -> list[Row]:
    """Compare every codec with none, over the same seeds."""
    data, test = mnist()
    seeds = range(1 if quick else 3)
    plain, whole = learn(cluster, PLAIN, seeds, data, test)
    rows = []
    for codec in codecs:
        mine, each = learn(cluster, codec, seeds, data, test)
        goal = JUDGED.get(codec, "")
        parts = {
            "bytes per sample": f"{each:.1f}, {PLAIN} {whole:.1f}",
            "accuracies": " ".join(f"{value:.4f}" for value in mine),
            f"accuracies, {PLAIN}": " ".join(f"{value:.4f}" for value in plain),
        }
        points = 100 * (mean(mine) - mean(plain))
        rows += [
            Row(
                f"2NN, {codec}: times less traffic, both ways",
                whole / each,
                "x",
                goal,
                parts,
                len(mine),
            ),
            Row(
                f"2NN, {codec}: accuracy minus {PLAIN}",
                points,
                "points",
                goal and ">= -0.3",
                runs=len(mine),
            ),
        ]
    return rows


@contextmanager
def over_the_socket() -> Iterator[None]:
    """Let no worker share memory, as if all executors were on other hosts."""
    with patch("tos_notebook.strategies.ps.trainer.attach", lambda name, nbytes: None):
        yield


def rates(cluster: Any, codecs: Sequence[str], rounds: int) -> list[Row]:
    """Compare throughputs, measured in turns."""
    data, _ = mnist()
    found: dict[str, list[float]] = {name: [] for name in ("shared", PLAIN, *codecs)}
    for _ in range(rounds):
        for name, rates_of in found.items():
            codec = PLAIN if name == "shared" else name
            with training(cluster, network(TWO_NN), codec) as session:
                session.run(data, 1)
                if name == PLAIN:
                    with over_the_socket():
                        measured = measure(session, data, 2)
                else:
                    measured = measure(session, data, 2)
                rates_of.append(measured.steady)
    rows = []
    for codec in codecs:
        value, shared = (
            median(a / b for a, b in zip(found[codec], found[other], strict=True))
            for other in (PLAIN, "shared")
        )
        parts = {
            "samples/s": f"{median(found[codec]):,.0f}, {PLAIN} {median(found[PLAIN]):,.0f}",
            f"of {PLAIN} in shared memory": f"{shared:.3f}",
        }
        goal = ">= 0.90" if codec in JUDGED else ""
        rows.append(
            Row(f"2NN, {codec}: rate, of {PLAIN} over the socket", value, "x", goal, parts, rounds)
        )
    return rows


def run(quick: bool) -> list[Row]:
    """Measure what has a goal; unless quick, the others, too."""
    codecs = tuple(JUDGED) if quick else CODECS
    with spark() as cluster:
        return [*accuracies(cluster, codecs, quick), *rates(cluster, codecs, 3 if quick else 5)]


if __name__ == "__main__":
    program(run, __doc__)
