"""Training against spark-tensorflow-distributor: TensorFlow's all-reduce in Spark's tasks.

It has seen no release since 2021, and is installed with the packages that it runs with, in an
environment of its own. Both sides have the same network, data and batches, two workers, and an
exchange at each step. Ours is once the ring, and once the parameter server with its default.

    python -m benchmarks.neighbours.distributor [--quick] [--environments DIR]
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ..lib.harness import Row, program
from ..lib.neighbor import Neighbor, compare, python_with
from ..lib.ours import BATCH_SIZE

PACKAGES = ("spark-tensorflow-distributor==1.0.0", "pyspark==4.0.0", "tensorflow==2.19.*")
OURS: dict[str, dict[str, Any]] = {
    "all-reduce": {"strategy": "allreduce"},
    "a parameter server": {},
}


def run(quick: bool, environments: Path | None = None) -> list[Row]:
    """Measure in turns."""
    with tempfile.TemporaryDirectory(prefix="tos-environments-") as folder:
        python = python_with(PACKAGES, environments or Path(folder))
        with Neighbor("distributor_side", [str(BATCH_SIZE)], python) as distributor:
            return [
                compare("spark-tensorflow-distributor", how, distributor, quick, **options)
                for how, options in OURS.items()
            ]


if __name__ == "__main__":
    program(run, __doc__, folder=("environments", "where it is installed, to be kept"))
