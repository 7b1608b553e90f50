"""Records that do not fit into memory: 5 GB of TFRecord files, read by a function on each worker.

What counts is the most memory that a worker's process ever had. The files are generated, with
records of the size of MNIST's images as floats, and go through TensorFlow's reader and parser.

python -m benchmarks.throughput.streaming [--quick]
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import tos_notebook as tos
from tos_notebook.data.described import DatasetContext

from ..lib.harness import Row, program, rate
from ..lib.models import TWO_NN, network
from ..lib.ours import BATCH_SIZE, spark

FILES = 16
KINDS = 1000
"""Different records, which come again and again."""


def write(folder: Path, nbytes: int) -> int:
    """Write files of so many bytes in all; return how many records they have."""
    import tensorflow as tf

    random = np.random.default_rng(0)
    kinds = [_record(random.random(784, np.float32), n % 10) for n in range(KINDS)]
    each = nbytes // FILES // len(kinds[0])
    for number in range(FILES):
        with tf.io.TFRecordWriter(str(folder / f"part-{number:02d}.tfrecord")) as writer:
            for n in range(each):
                writer.write(kinds[n % KINDS])
    return each * FILES


def _record(x: Any, y: int) -> bytes:
    import tensorflow as tf

    features = {
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
        "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[y])),
    }
    record = tf.train.Example(features=tf.train.Features(feature=features))
    return bytes(record.SerializeToString())


def reader(folder: str) -> Any:
    """Return the function that makes a worker's dataset."""

    def make(context: DatasetContext) -> Any:
        import tensorflow as tf

        Path(folder, "pids", str(os.getpid())).touch()

        def parse(records: Any) -> Any:
            spec = {
                "x": tf.io.FixedLenFeature([784], tf.float32),
                "y": tf.io.FixedLenFeature([], tf.int64),
            }
            found = tf.io.parse_example(records, spec)
            return found["x"], found["y"]

        files = tf.data.Dataset.list_files(f"{folder}/*.tfrecord", shuffle=False)
        files = files.shard(context.partitions, context.partition)
        return tf.data.TFRecordDataset(files).batch(BATCH_SIZE).map(parse).unbatch()

    return make


def peaks(folder: Path) -> list[int]:
    """Return the most memory, in MB, that each process has had which made a dataset elsewhere."""
    pids = {int(path.name) for path in folder.glob("pids/*")} - {os.getpid()}
    found = [_peak(Path(f"/proc/{pid}/status").read_text(encoding="utf-8")) for pid in pids]
    return [kilobytes // 1024 for kilobytes in found]


def _peak(status: str) -> int:
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    if found is None:
        raise RuntimeError("/proc/PID/status has no VmHWM: this benchmark needs Linux.")
    return int(found[1])


def run(quick: bool) -> list[Row]:
    """Train one epoch."""
    nbytes = 500_000_000 if quick else 5_000_000_000
    with tempfile.TemporaryDirectory(prefix="tos-benchmark-") as folder, spark() as session:
        records = write(Path(folder), nbytes)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        Path(folder, "pids").mkdir()
        model = network(TWO_NN, pixels=False)
        with tos.TrainingSession(session, model, batch_size=BATCH_SIZE) as training:
            began = perf_counter()
            trained = training.run(reader(folder), 1, shuffle=False)
            took = perf_counter() - began
            found = peaks(Path(folder))
            samples = int(trained.history["samples"].sum())
    if samples != records:
        raise RuntimeError(f"Expected {records} records to be trained, got {samples}.")
    parts = {
        "each worker": ", ".join(f"{n} MB" for n in found),
        "on disk": f"{size / 1e9:.2f} GB, {records:,} records",
        "throughput": rate(records / took),
    }
    return [Row("most memory of a worker", max(found) / 1000, "GB", "< 1", parts)]


if __name__ == "__main__":
    program(run, __doc__)
