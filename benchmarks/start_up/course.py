"""What each notebook takes that a student runs: time, the way to a first curve, memory, size.

Executed from top to bottom without a front end, where a training cell waits for its run, with the
JVM that a container of 2 GB would get. Memory is looked at in an execution of its own: to look
takes time.

    python -m benchmarks.start_up.course [--quick]
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import nbformat

from tests.clusters.standalone import command_line, descendants
from tests.notebooks.save_outputs import ENVIRONMENT, FOLDER, Client
from tos_notebook.cluster.jvm import LATE_COMPILER

from ..lib.harness import Row, program

OPTIONS = *LATE_COMPILER, "-XX:+UseSerialGC", "-Djdk.nio.maxCachedBufferSize=1048576"
SMALL = f"""
spark.driver.memory 512m
spark.driver.extraJavaOptions {" ".join(OPTIONS)}
"""
"""What `tos.connect` sets where there are 2 GB and 2 cores."""

PERIOD = 0.5
"""Seconds between two looks at the processes."""

TIMEOUT = 300
"""Seconds for one cell."""

CONNECTS = re.compile(r"^%tos_connect", re.MULTILINE)
TRAINS = re.compile(r"^%%tos_train|\.start\(|\.run\(", re.MULTILINE)
OUTPUTS = ("stream", "display_data", "execute_result")
MOVES = re.compile(r"^epoch \d", re.MULTILINE)
"""A line of plain progress; what comes before says what was captured."""


@dataclass(frozen=True)
class Took:
    """The seconds of one execution.

    Parameters
    ----------
    in_all : float
        From the start of the kernel to its end.
    connected : float
        From the start until Spark was up.
    first : float
        From there to the first output of a cell.
    shown : float
        From there to the first output of a training cell that shows the run, whatever lies between.
    curve : float
        To that output from the start of its cell.
    """

    in_all: float
    connected: float
    first: float
    shown: float
    curve: float


class Processes(threading.Thread):
    """Looks at a process and all below it, until it is told to stop.

    Parameters
    ----------
    root : int
        Its pid.

    Attributes
    ----------
    peak : Counter of str
        The most bytes that they held at once, by kind of process. A page that several share
        counts once.
    """

    def __init__(self, root: int) -> None:
        super().__init__(name="processes", daemon=True)
        self.peak: Counter[str] = Counter()
        self._used: dict[int, float] = {}
        self._root = root
        self._stopped = threading.Event()

    @property
    def processor(self) -> float:
        """The seconds of a core that they have used."""
        return sum(self._used.values())

    def run(self) -> None:
        """Look, and look again."""
        while not self._stopped.wait(PERIOD):
            found: Counter[str] = Counter()
            for pid in [self._root, *descendants(self._root)]:
                found[self._kind(pid)] += proportional(pid)
                self._used[pid] = max(processor(pid), self._used.get(pid, 0.0))
            self.peak = max(self.peak, found, key=Counter.total)

    def _kind(self, pid: int) -> str:
        if pid == self._root:
            return "kernel"
        return "Spark's JVM" if "/bin/java" in command_line(pid) else "workers"

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()
        self.join()


def proportional(pid: int) -> int:
    """Return a process's share of the memory that it maps, in bytes; 0 if it has ended."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        found = re.search(r"^Pss:\s+(\d+) kB$", text, re.MULTILINE)
        return int(found[1]) * 1024 if found else 0
    return 0


def processor(pid: int) -> float:
    """Return the seconds of a core that a process has used; 0 if it has ended."""
    with suppress(OSError):
        # The name, in parentheses, may hold spaces.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return 0.0


class Student(Client):
    """Runs all cells, and notes when Spark was up, and when what was first seen."""

    connected = 0.0
    first = 0.0
    began = 0.0
    shown = 0.0

    def process_message(self, message: Any, cell: Any, cell_index: int) -> Any:
        """Take a message of a cell."""
        kind, content = message["msg_type"], message["content"]
        ended = kind == "status" and content["execution_state"] == "idle"
        moved = kind == "display_data" or (kind == "stream" and MOVES.search(content["text"]))
        if not self.connected:
            if ended and CONNECTS.search(cell.source):
                self.connected = perf_counter()
        elif not self.shown:
            self._look(kind, bool(moved and TRAINS.search(cell.source)))
        return super().process_message(message, cell, cell_index)

    def _look(self, kind: str, moved: bool) -> None:
        now = perf_counter()
        if kind == "execute_input":
            self.began = now
        elif kind in OUTPUTS and not self.first:
            self.first = now
        if moved:
            self.shown = now


def student(path: Path, **hooks: Any) -> Student:
    """Return a client for a notebook."""
    return Student(
        nbformat.read(path, as_version=4),
        timeout=TIMEOUT,
        store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
        **hooks,
    )


def timed(path: Path, environment: dict[str, str]) -> Took:
    """Run a notebook once."""
    client = student(path)
    began = perf_counter()
    client.execute(env=environment)
    ended = perf_counter()
    if not began < client.connected < client.shown < ended:
        raise RuntimeError(f"{path.name} does not connect to Spark, then show how a run trains.")
    connected, shown = client.connected, client.shown
    return Took(
        in_all=ended - began,
        connected=connected - began,
        first=client.first - connected,
        shown=shown - connected,
        curve=shown - client.began,
    )


def weighed(path: Path, environment: dict[str, str]) -> Processes:
    """Run a notebook once; return what was seen of its processes."""
    watching: list[Processes] = []

    def watch(**_: Any) -> None:
        watching.append(Processes(client.km.provisioner.pid))
        watching[0].start()

    client = student(path, on_notebook_start=watch)
    try:
        client.execute(env=environment)
    finally:
        for processes in watching:
            processes.stop()
    return watching[0]


def rows(path: Path, times: int) -> Iterator[Row]:
    """Measure one notebook, several times; the worst counts."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "spark-defaults.conf").write_text(SMALL, encoding="utf-8")
        environment = os.environ | ENVIRONMENT | {"SPARK_CONF_DIR": folder}
        found = [timed(path, environment) for _ in range(times)]
        seen = weighed(path, environment)
    name = path.stem[:40]
    worst = max(found, key=lambda took: took.in_all)
    parts = {
        "Spark up after": f"{worst.connected:.1f} s",
        "all": ", ".join(f"{took.in_all:.0f} s" for took in found),
        "of a core, all processes": f"{seen.processor:.0f} s",
    }
    kinds = {kind: f"{nbytes / 1e6:,.0f} MB" for kind, nbytes in seen.peak.items()}
    yield Row(f"{name}: in all", worst.in_all, "s", "<= 180", parts, times)
    first, curve = (max(getattr(took, each) for took in found) for each in ("first", "curve"))
    shown = {"all cells from Spark to there": f"{max(took.shown for took in found):.1f} s"}
    yield Row(f"{name}: Spark to a first output", first, "s", "<= 10", runs=times)
    yield Row(f"{name}: training cell to a curve", curve, "s", "<= 10", shown, times)
    yield Row(f"{name}: memory", seen.peak.total() / 1e9, "GB", "< 2", kinds)
    yield Row(f"{name}: file", path.stat().st_size / 1e3, "kB", "< 300")


def run(quick: bool) -> list[Row]:
    """Measure all notebooks."""
    return [
        row
        for path in sorted(FOLDER.glob("*.ipynb"))
        for row in rows(path, times=1 if quick else 3)
    ]


if __name__ == "__main__":
    program(run, __doc__)
