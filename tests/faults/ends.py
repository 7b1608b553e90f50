"""How runs end: how soon a stop and an error take effect, and what is left running afterwards.

python -m tests.faults.ends --cluster KIND [--idle]

Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import tos_notebook as tos
from tests.clusters.standalone import command_line, descendants, parent
from tests.support.watching import Watch
from tests.unit.worker.support import until
from tos_notebook.cluster.files import executor_folder
from tos_notebook.common.console import quiet_stderr
from tos_notebook.errors import TosError
from tos_notebook.events import EpochFinished, MilestoneCommitted, StateChanged, WorkerFailed

from . import counting
from .clusters import Cluster
from .kinds import ALL

DAEMON = re.compile(r" -m (pyspark|tos_notebook\.cluster)\.daemon ")

OVER = 60.0
"""Seconds after which a run that was stopped has to be over, on a machine that is busy."""

SURPLUS = 12
"""Partitions, of which two are trained at once."""

IDLE = 130.0
"""Seconds in which Spark ends Python workers that have nothing to do."""


def session(sc: Any, program: Any = None, **options: Any) -> tos.TrainingSession:
    """Return a session of the counting program."""
    settings = {"combiner": "delta", "batch_size": 1, "sync_interval": 1, **options}
    return tos.TrainingSession(sc, program or counting.program(), **settings)


def jobs(sc: Any) -> int:
    """Return how many jobs Spark runs."""
    return len(sc.statusTracker().getActiveJobsIds())


def stop(sc: Any, sizes: tuple[int, ...], by: Callable[[tos.Run, Watch], float]) -> dict[str, Any]:
    """Stop a run in mid-epoch; return what was done after that, and how long Spark ran a job."""
    watch = Watch()
    with tempfile.TemporaryDirectory() as name, session(sc) as made:
        folder = Path(name)
        run = made.start(
            counting.data(sc, sizes, folder), epochs=10_000, shuffle="partitions", sinks=[watch]
        )
        watch.until(MilestoneCommitted, count=20)
        before = counting.opened(folder)
        began = by(run, watch)
        run.wait(OVER)
        until(lambda: not jobs(sc), OVER)
        took = monotonic() - began
        return {
            "state": run.state,
            "seconds": round(took, 3),
            "slots": run.slots,
            "late": late(watch),
            "opened": len(counting.opened(folder) - before),
            "exact": bool(counting.counted(run)[1] == run.history["steps"].sum()),
        }


def late(watch: Watch) -> int:
    """Return how many milestones came after the server knew of the stop."""
    states = [isinstance(e, StateChanged) and e.state == "stopping" for e in watch.events]
    return sum(isinstance(e, MilestoneCommitted) for e in watch.events[states.index(True) :])


def at_once(run: tos.Run, watch: Watch) -> float:
    """Stop as a person does; return when."""
    began = monotonic()
    run.stop()
    return began


def by_sink(run: tos.Run, watch: Watch) -> float:
    """Stop from within a sink, as early stopping does; return when."""
    asked = threading.Event()

    def enough(event: Any) -> None:
        if not asked.is_set() and isinstance(event, (EpochFinished, MilestoneCommitted)):
            times.append(monotonic())
            asked.set()
            run.stop()

    times: list[float] = []
    run.add_sink(enough)
    asked.wait(60)
    return times[0]


def broken_graph() -> Any:
    """Return a program whose operation fails at row 30."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        rows = v1.placeholder(tf.float64, [None], name="rows")
        table = v1.get_variable("table", initializer=tf.ones([30], tf.float64))
        loss = tf.reduce_sum(tf.gather(table, tf.cast(rows, tf.int32)))
        step = v1.train.GradientDescentOptimizer(1.0).minimize(loss)
        made = v1.Session()
        made.run(v1.global_variables_initializer())
        return tos.capture(step, feeds=[rows], loss=loss, session=made)


def spoilt(kind: str, moment: Path) -> counting.Prepare:
    """Return what raises in the data function of partition 1, having noted when."""

    def prepare(partition: int, attempt: int, folder: Path) -> None:
        if partition == 1:
            with suppress(FileExistsError), moment.open("x") as file:
                file.write(str(time.time()))
            if kind == "package":
                __import__("no_such_package")
            raise ValueError("row 42 is spoilt")

    return prepare


def error(sc: Any, kind: str) -> dict[str, Any]:
    """Let a run fail; return the seconds from the raise to when it is told, and the message."""
    watch = Watch()
    with tempfile.TemporaryDirectory() as name:
        moment = Path(name, "raised")
        operation = kind == "operation"
        combiner = _broken if kind == "combiner" else "delta"
        made = session(sc, broken_graph() if operation else None, combiner=combiner)
        BROKEN.clear()
        prepare = spoilt(kind, moment) if kind in ("data", "package") else None
        with made:
            run = made.start(
                counting.data(sc, (25, 25), Path(name), prepare), epochs=5, sinks=[watch]
            )
            try:
                run.wait(120)
                message = ""
            except TosError as problem:
                message = f"{type(problem).__name__}: {problem}".splitlines()[0]
            told = time.time()
        if moment.exists():
            began = float(moment.read_text())
        else:
            began = watch.of(WorkerFailed)[0].time if operation else BROKEN[0]
    failed = [e.time for e in watch.of(StateChanged) if e.state == "failed"]
    return {
        "message": message[:120],
        "told": round(told - began, 2),
        "failed": round(failed[0] - began, 2) if failed else None,
    }


BROKEN: list[float] = []


def _broken(center: Any, update: Any, push: Any) -> Any:
    BROKEN.append(time.time())
    raise ValueError("no such rule")


def left(folder: Path) -> dict[str, Any]:
    """Return what this process has: our threads, sockets, files, segments, Python workers.

    Parameters
    ----------
    folder : Path
        Where the cluster's nodes write.
    """
    sockets = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            sockets += entry.readlink().name.startswith("socket:")
    # A worker is forked: it has the command line of its daemon, which Spark keeps.
    daemons = [pid for pid in descendants(os.getpid()) if DAEMON.search(command_line(pid))]
    workers = [pid for pid in daemons if parent(pid) in daemons]
    return {
        "threads": sorted(t.name for t in threading.enumerate() if t.name.startswith("tos-")),
        "sockets": sockets,
        "segments": len(list(Path("/dev/shm").glob("tos-*"))),
        "residuals": sum(
            1 for place in (folder, executor_folder()) for _ in place.rglob("tos-*.residual")
        ),
        "workers": len(workers),
        "resident": sum(_resident(pid) for pid in workers) // 2**20,
    }


def _resident(pid: int) -> int:
    with suppress(OSError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def main() -> None:
    """Measure on one kind of cluster."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.ends", description=__doc__)
    parser.add_argument("--cluster", choices=ALL, default="local")
    parser.add_argument("--idle", action="store_true", help="wait for Spark to end idle workers")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    with quiet_stderr(), Cluster(options.cluster) as cluster:
        sc = cluster.connect({})
        # Warm, and with all that Spark opens once.
        found["warm"] = stop(sc, (60, 60), at_once)
        before = left(cluster.folder)
        found["stop"] = [stop(sc, (60, 60), at_once) for _ in range(3)]
        found["stop with surplus"] = stop(sc, (60,) * SURPLUS, at_once)
        found["stop by a sink"] = stop(sc, (60, 60), by_sink)
        for kind in ("data", "package", "operation", "combiner"):
            found[f"error: {kind}"] = error(sc, kind)
        found["before"], found["after"] = before, left(cluster.folder)
        if options.idle:
            deadline = monotonic() + IDLE
            while left(cluster.folder)["workers"] and monotonic() < deadline:
                time.sleep(1)
            found["idle"] = left(cluster.folder) | {
                "seconds": round(IDLE - (deadline - monotonic()))
            }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
