"""A recommender whose users no process has all of: trained, killed, resumed, asked for predictions.

The model is that of Keras' own example, ``RecommenderNet``, with its users in a served embedding.
Ratings are drawn by a seed, as in MovieLens: each user rates one movie, some movies are far more
popular, and what a user thinks of a movie depends on the taste of the one and the kind of the
other. Every user's row is trained, so that the table has as many bytes as it says.

A first driver trains. A shard and a worker are killed on the way, and then the driver itself.
Another driver resumes from the last checkpoint, trains what is left, and predicts on Spark.

    python -m benchmarks.scale.served [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import tos_notebook as tos
from tos_notebook.errors import TosError

from ..lib.harness import Row, program
from ..lib.ours import spark
from ..lib.usage import resident

MOVIES = 20_000
KINDS = 8
BATCH, INTERVAL = 2000, 10
SHARDS = 2
SEED = 7


def ratings(users: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of a user and a movie, one for each user, and ratings from 0 to 1."""
    random = np.random.default_rng(SEED)
    taste = random.integers(0, KINDS, users, np.int8)
    kind = random.integers(0, KINDS, MOVIES, np.int8)
    # Zipf's law: the second movie is rated half as often as the first.
    share = np.cumsum(1 / np.arange(1, MOVIES + 1))
    movie = np.searchsorted(share / share[-1], random.random(users, np.float32)).astype(np.int32)
    user = random.permutation(users).astype(np.int32)
    liked = (taste[user] - kind[movie]) % KINDS < 2
    noise = random.normal(0, 0.1, users).astype(np.float32)
    rating = np.clip(np.where(liked, 0.8, 0.3) + noise, 0, 1).astype(np.float32)
    return np.stack([user, movie], 1), rating[:, None]


def recommender(users: int, width: int) -> Any:
    """Return the model of Keras' example, compiled."""
    import keras

    keras.utils.set_random_seed(SEED)
    pair = keras.Input((2,), dtype="int32", name="pair")
    cache = BATCH * INTERVAL
    user_layer = tos.layers.ServedEmbedding(
        users, width, "normal", seed=SEED, cache_rows=cache, name="users"
    )
    bias_layer = tos.layers.ServedEmbedding(users, 1, "zeros", cache_rows=cache, name="user_bias")
    movies = keras.layers.Embedding(MOVIES, width, name="movies")(pair[:, 1])
    movie_bias = keras.layers.Embedding(MOVIES, 1, name="movie_bias")(pair[:, 1])
    match = keras.layers.Dot(1)([user_layer(pair[:, 0]), movies])
    total = keras.layers.Add()([match, bias_layer(pair[:, 0]), movie_bias])
    model = keras.Model(pair, keras.layers.Activation("sigmoid")(total))
    # The first step of a row is as long as the rate, since each user rates once. Those of movies,
    # which are rated often, become shorter.
    optimizer = keras.optimizers.Adagrad(0.2, initial_accumulator_value=1e-10)
    model.compile(optimizer, "binary_crossentropy")
    return model


class Memory:
    """The largest memory that each process of a kind had, bytes."""

    def __init__(self, run: tos.Run) -> None:
        self._run = run
        self.most: dict[str, int] = {}

    def look(self) -> None:
        """Look once."""
        training: Any = self._run.parts.training
        members = training.facts(("", 0.0), 2).members
        group = training.trainer.parameters.commits.group
        for member in members:
            self._note("worker", member.pid)
        for serving in [] if group is None or group.error else group.members():
            self._note("shard", serving.pid)
        self._note("driver", os.getpid())

    def _note(self, kind: str, pid: int) -> None:
        try:
            self.most[kind] = max(self.most.get(kind, 0), resident("VmRSS", pid))
        except OSError:
            # It is gone by now.
            return


def say(what: str, **values: Any) -> None:
    """Print one line."""
    sys.stdout.write(json.dumps({"what": what, **values}) + "\n")
    sys.stdout.flush()


@contextmanager
def cluster() -> Iterator[Any]:
    """Start Spark with a slot for each shard, and one for a worker."""
    config = {"spark.driver.memory": "1g", "spark.log.level": "ERROR"}
    with spark(f"local[{SHARDS + 1},8]", config) as session:
        yield session


def follow(run: tos.Run, total: int, kill: bool) -> None:
    """Watch a run until it ends, or until this process kills itself at three quarters."""
    memory, began, killed = Memory(run), time.perf_counter(), list[str]()
    while run.active:
        time.sleep(0.5)
        memory.look()
        done = run.status.samples / total
        for who, at in (("shard", 0.3), ("worker", 0.5)):
            if kill and done > at and who not in killed:
                killed.append(who)
                pid = pid_of(run, who)
                say(f"kill the {who}", done=round(done, 3))
                os.kill(pid, signal.SIGKILL)
        if kill and done > 0.75 and run.status.checkpoint is not None:
            report(run, memory, began, "until the driver is killed")
            os.kill(os.getpid(), signal.SIGKILL)
    report(run, memory, began, "at the end")


def pid_of(run: tos.Run, who: str) -> int:
    """Return the process of the shard or of the worker to be killed."""
    training: Any = run.parts.training
    if who == "worker":
        return int(training.facts(("", 0.0), 2).members[0].pid)
    return int(training.trainer.parameters.commits.group.members()[0].pid)


def report(run: tos.Run, memory: Memory, began: float, when: str) -> None:
    """Print what a run has come to, and the memory that its processes had at most."""
    most = {name: round(value / 1e6) for name, value in sorted(memory.most.items())}
    say(
        when,
        state=run.state,
        samples=run.status.samples,
        seconds=round(time.perf_counter() - began, 1),
        restarts=sum("restart" in str(note) for note in run.status.notes),
        loss=run.status.loss,
        megabytes=most,
    )


def train(options: argparse.Namespace) -> None:
    """Be the first driver."""
    x, y = ratings(options.rows)
    with cluster() as session:
        training = tos.TrainingSession(
            session,
            recommender(options.rows, options.width),
            strategy=f"ps:shards={SHARDS}",
            combiner="downpour",
            batch_size=BATCH,
            sync_interval=INTERVAL,
            checkpoint_dir=f"file:{options.folder}",
        )
        run = training.start((x, y), epochs=1, partitions=1, checkpoint_every=options.every)
        Path(options.folder, "run").write_text(run.run_id, encoding="utf-8")
        follow(run, options.rows, kill=True)
        run.wait()


def resume(options: argparse.Namespace) -> None:
    """Be the second driver."""
    x, y = ratings(options.rows)
    run_id = Path(options.folder, "run").read_text(encoding="utf-8")
    with cluster() as session:
        began = time.perf_counter()
        model = recommender(options.rows, options.width)
        run = tos.resume(f"file:{options.folder}/{run_id}", (x, y), program=model, spark=session)
        say("resumed", seconds=round(time.perf_counter() - began, 1), samples=run.status.samples)
        follow(run, options.rows, kill=False)
        run.wait()
        parameters: Any = run.parts.training.parameters
        say("rows that were trained", **parameters.rows.counts())
        few = x[:10_000]
        began = time.perf_counter()
        here = run.predict(few)
        say("predicted here", seconds=round(time.perf_counter() - began, 1))
        frame = session.createDataFrame([(pair.tolist(),) for pair in few], ["pair"])
        began = time.perf_counter()
        scored = np.array([row.prediction for row in run.predict(frame, "pair").collect()])
        say(
            "predicted on Spark",
            seconds=round(time.perf_counter() - began, 1),
            largest_difference=float(np.abs(scored.reshape(-1) - here.reshape(-1)).max()),
            error_of_ratings=float(np.abs(here - y[:10_000]).mean()),
            error_of_their_mean=float(np.abs(y.mean() - y[:10_000]).mean()),
        )


def drivers(rows: int, width: int, every: str) -> list[dict[str, Any]]:
    """Let one driver train and die, and another one resume; return what they have said."""
    said: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="tos-served-") as folder:
        sizes = ["--rows", str(rows), "--width", str(width), "--every", every, "--folder", folder]
        for role in ("train", "resume"):
            command = [sys.executable, "-m", "benchmarks.scale.served", "--role", role, *sizes]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    sys.stderr.write(line)
                    said.append(json.loads(line))
            if process.returncode not in (0, -signal.SIGKILL):
                raise TosError(f"The driver that was to {role} ended with {process.returncode}.")
    return said


def measure(quick: bool) -> list[Row]:
    """Return what became of the ratings, and the memory that it took."""
    rows, width, every = (400_000, 16, "2s") if quick else (10_000_000, 48, "45s")
    said = {one["what"]: one for one in drivers(rows, width, every)}
    before, after = said["until the driver is killed"], said["at the end"]
    scored = said["predicted on Spark"]
    most = {k: max(before["megabytes"].get(k, 0), n) for k, n in after["megabytes"].items()}
    # A value has Adagrad's sum with it, and a row its number.
    nbytes = rows * (8 + 4 * 2 * width + 8 + 4 * 2)
    table = f"{rows:,} users of {width} values, {nbytes / 1e9:.1f} GB in {SHARDS} shards"
    parts = {kind: f"{number} MB" for kind, number in most.items()}
    trained = said["rows that were trained"]["users"]
    left_out = Row(f"{table}: users that were not trained", rows - trained, "rows", "== 0")
    wrong = scored["largest_difference"]
    return [
        Row(f"{table}: memory of a worker", most["worker"], "MB", "<= 1000", parts),
        left_out,
        Row(f"{table}: predictions on Spark against those here", wrong, "", "<= 0.00001"),
        Row(
            f"{table}: error of predictions / of the mean rating",
            scored["error_of_ratings"] / scored["error_of_their_mean"],
            "x",
            "< 1",
        ),
    ]


def main() -> None:
    """Be a driver, or start both."""
    if "--role" not in sys.argv:
        program(measure, __doc__)
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--role", choices=("train", "resume"))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--width", type=int)
    parser.add_argument("--every")
    parser.add_argument("--folder")
    options = parser.parse_args()
    (train if options.role == "train" else resume)(options)


if __name__ == "__main__":
    main()
