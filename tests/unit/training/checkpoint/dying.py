"""Runs without Spark that are killed while they write their checkpoints.

    python -m tests.unit.training.checkpoint.dying FOLDER SYNC BYTES ...

Each run is a process of its own, which trains by NumPy. It kills itself once it has written so many
bytes to its folder, `FOLDER/BYTES`, wherever in a file that is. Those with an odd number of bytes
have a combiner whose state counts: it holds pushes that are not in the center yet.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.support.numpy_program import Counting
from tests.support.threads import Aside
from tests.unit.training.checkpoint.test_writer import Disk, origin
from tests.unit.worker.support import Served, counting_training
from tos_notebook.combiners import Combiner, Downpour, SlowMo
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.steering.sync import as_sync
from tos_notebook.steering.trigger import as_trigger
from tos_notebook.telemetry.tally import Tally
from tos_notebook.training.checkpoint.folder import Folder
from tos_notebook.training.checkpoint.writer import CheckpointWriter, Subject

PARTITIONS, ROWS, ENDLESS = 2, 40, 100_000

ROUND = 4
"""Pushes, of which an epoch has a multiple; and a quarter of a whole number is exact."""


def rule(left: int) -> Combiner:
    """Return the combiner of a run that dies after so many bytes: either adds up all changes."""
    return SlowMo(k=ROUND, lr=ROUND, momentum=0) if left % 2 else Downpour()


class Dying(Disk):
    """A disk whose process ends at one byte."""

    def __init__(self, folder: Path, left: int) -> None:
        super().__init__(folder)
        self.left = left

    def write(self, name: str, data: Path) -> str:
        self.spend(name, data.read_bytes())
        return super().write(name, data)

    def write_new(self, name: str, data: bytes) -> bool:
        self.spend(name, data)
        return super().write_new(name, data)

    def spend(self, name: str, data: bytes) -> None:
        """Die in the midst of a file that there are not enough bytes left for."""
        if len(data) >= self.left:
            (self.folder / name).write_bytes(data[: self.left])
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= len(data)


def train(training: Coordinator) -> None:
    """Train all partitions, to the end."""
    served = Served(training)
    workers = [
        Aside(lambda p=p: served.work(Counting(), p, p, columns=1))  # type: ignore[misc]
        for p in range(PARTITIONS)
    ]
    for worker in workers:
        worker.result()
    served.close()


def run(folder: Path, sync: str, left: int) -> None:
    run_folder = Folder(Dying(folder, left))
    run_folder.begin()
    checkpointer = CheckpointWriter(
        run_folder, origin(partitions=PARTITIONS), as_trigger("", "3 milestones"), 3
    )
    training, _ = counting_training(
        PARTITIONS, ENDLESS, rule(left), 2, ROWS, sync=as_sync(sync), publish=checkpointer
    )
    checkpointer.begin(
        Subject(
            training.snapshot,
            lambda: None,
            Tally().totals,
            lambda event: None,
            lambda timeout: None,
        )
    )
    train(training)


def main(folder: str, sync: str, *instants: str) -> None:
    for instant in instants:
        place = Path(folder, instant)
        place.mkdir()
        # No thread has been started, so that a copy of this process is whole.
        child = os.fork()
        if child == 0:
            run(place, sync, int(instant))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"the run was not killed, it ended with {status}"
        assert os.WTERMSIG(status) == signal.SIGKILL


if __name__ == "__main__":
    main(*sys.argv[1:])
