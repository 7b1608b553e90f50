"""Training against Elephas, which trains Keras models in Spark's executors, too.

Elephas wants older packages, so it is installed in an environment of its own. Both sides have the
same network, data and batches, and two workers. Elephas' workers exchange after each epoch, as is
its default.

    python -m benchmarks.neighbours.elephas [--quick] [--environments DIR]
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ..lib.harness import Row, program
from ..lib.neighbor import Neighbor, compare, python_with
from ..lib.ours import BATCH_SIZE

PACKAGES = ("elephas==7.3.0",)
MODES: dict[str, dict[str, Any]] = {"asynchronous": {}, "synchronous": {"sync": "sync"}}
"""Of Elephas, and ours that is like it."""


def run(quick: bool, environments: Path | None = None) -> list[Row]:
    """Measure in turns."""
    with tempfile.TemporaryDirectory(prefix="tos-environments-") as folder:
        python = python_with(PACKAGES, environments or Path(folder))
        rows = []
        for mode, options in MODES.items():
            with Neighbor("elephas_side", (mode, str(BATCH_SIZE)), python) as elephas:
                rows.append(compare(f"Elephas, {mode}", mode, elephas, quick, **options))
        return rows


if __name__ == "__main__":
    program(run, __doc__, folder=("environments", "where Elephas is installed, to be kept"))
