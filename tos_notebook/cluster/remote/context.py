"""A session of Spark Connect with what this package uses of a SparkContext."""

from __future__ import annotations

import hashlib
import itertools
import pickle
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from ...common import temporary
from ...common.threads import in_thread
from ...errors import ClusterUnreachable
from ..jvm_backend import local_master
from .address import address_of
from .rows import RemoteRows
from .tasks import LANE, NOTE, VALUE, Accumulator, OnlyIn, Sent, of_parts
from .values import read

INLINE = 8 << 20
"""Bytes up to which what is sent to tasks goes with their function; else it is a file."""

SMALL = 1 << 20
"""Bytes up to which the values of all partitions go with the function that yields them."""

AGAIN = 0.5
"""Seconds between two tries at canceling a job that may not have begun."""

GROUP = "spark.jobGroup.id"
"""What Spark calls the group of a thread's jobs."""

SILENT = "its server has no list of executors. See the Spark page of the server's application."


class RemoteContext:
    """See `Context` and `Backend`: jobs are DataFrames, groups of jobs are tags.

    Parameters
    ----------
    session : pyspark.sql.connect.session.SparkSession

    Attributes
    ----------
    taken : int
        How many slots this process itself holds: 1 in a Spark task, which has the run's server.
    """

    def __init__(self, session: Any) -> None:
        self.session = session
        channel = session.client._builder
        self.host, self.port = address_of(channel.endpoint)
        self.encrypted = bool(channel.secure)
        self.master = f"sc://{channel.endpoint}"
        self.uiWebUrl = None
        self.shipped = False
        self.taken = 0
        self._local = threading.local()
        self._lock = threading.Lock()
        # By group: the tags of its jobs, each of which has one of its own.
        self._running: defaultdict[str, list[str]] = defaultdict(list)
        self._cancelled: set[str] = set()
        # By job: why it is to end and to start again; and the tasks for which one did.
        self._lost: dict[str, tuple[int, str]] = {}
        self._killed: set[int] = set()
        self._files: dict[str, str] = {}
        self._accumulators: dict[str, Accumulator] = {}
        self._numbers = itertools.count()

    @property
    def applicationId(self) -> str:  # noqa: N802
        """See ``SparkContext.applicationId``; here it is the session's."""
        return str(self.session.session_id)

    @property
    def appName(self) -> str:  # noqa: N802
        """See ``SparkContext.appName``."""
        return self.setting("spark.app.name", "Spark Connect server")

    @property
    def version(self) -> str:
        """See ``SparkContext.version``; here it is the server's."""
        return str(self.session.version)

    @property
    def pythonExec(self) -> str:  # noqa: N802
        """See ``SparkContext.pythonExec``; the server chooses it."""
        return "as the server's environment or its spark.pyspark.python names it"

    @property
    def defaultParallelism(self) -> int:  # noqa: N802
        """See ``SparkContext.defaultParallelism``."""
        return self.slots()

    def parallelize(self, values: Iterable[Any], partitions: int) -> RemoteRows:
        """See ``SparkContext.parallelize``."""
        given = list(values)
        bounds = [len(given) * index // partitions for index in range(partitions + 1)]
        parts = [given[start:end] for start, end in itertools.pairwise(bounds)]
        numbers = RemoteRows(
            self, self.session.range(0, partitions, 1, partitions), partitions=partitions
        )
        content = pickle.dumps(parts, 5) if _is_large(given) else b""
        if len(content) <= SMALL:
            return numbers.mapPartitionsWithIndex(of_parts(parts))
        files = [self.broadcast(part) for part in parts]
        return numbers.mapPartitionsWithIndex(of_parts([[f] for f in files])).flatMap(_value)

    def broadcast(self, value: Any) -> Sent:
        """See ``SparkContext.broadcast``."""
        content = pickle.dumps(value, 5)
        if len(content) <= INLINE:
            return Sent(content)
        name = f"sent-{hashlib.blake2b(content, digest_size=16).hexdigest()}.pickle"
        with temporary.directory("tos-sent-") as folder:
            path = Path(folder, name)
            path.write_bytes(content)
            self.add_file(path)
        return Sent(None, name)

    def accumulator(self, value: Any, param: Any) -> Accumulator:
        """See ``SparkContext.accumulator``."""
        made = Accumulator(f"a{next(self._numbers)}", value, param)
        self._accumulators[made.name] = made
        return made

    def runJob(  # noqa: N802
        self, rows: RemoteRows, call: Callable[..., Iterable[Any]], partitions: Sequence[int]
    ) -> list[Any]:
        """See ``SparkContext.runJob``."""
        found: dict[int, list[Any]] = {partition: [] for partition in partitions}
        for partition, value in rows.mapPartitionsWithIndex(OnlyIn(partitions, call)).collect():
            found[partition].append(value)
        return [value for partition in partitions for value in found[partition]]

    def run(self, frame: Any) -> Iterator[Any]:
        """Run a job; yield the values that it returns, in the order of the partitions.

        Parameters
        ----------
        frame : DataFrame
            Of packed values.

        Raises
        ------
        Exception
            The job failed or was canceled; `job_error` says why.
        """
        table = self._in_group(frame.toArrow)
        lanes, notes, values = (table.column(name) for name in (LANE, NOTE, VALUE))
        order = sorted(enumerate(lanes.to_pylist()), key=itemgetter(1))
        is_note = notes.to_pylist()
        for row, _ in order:
            value = read(values[row].as_buffer())
            if not is_note[row]:
                yield value
            elif value[0] in self._accumulators:
                self._accumulators[value[0]].merge(value[1])

    def _in_group(self, call: Callable[[], Any]) -> Any:
        """Make a call as a job of this thread's group, unless that was canceled."""
        group = self._group
        if group is None:
            return call()
        with self._lock:
            self._refuse_cancelled(group)
            job = f"{group}-{next(self._numbers)}"
            self._running[group].append(job)
        tags = group, job
        for tag in tags:
            self.session.addTag(tag)
        try:
            return call()
        except Exception:
            self._refuse_cancelled(group)
            if lost := self._lost.get(job):
                task, reason = lost
                raise ClusterUnreachable(f"Spark Connect ended task {task}: {reason}.") from None
            raise
        finally:
            for tag in tags:
                self.session.removeTag(tag)
            with self._lock:
                self._running[group].remove(job)
                self._lost.pop(job, None)

    def _refuse_cancelled(self, group: str) -> None:
        if group in self._cancelled:
            raise Cancelled(f"[OPERATION_CANCELED] Job group {group} was canceled.")

    @property
    def _group(self) -> str | None:
        return getattr(self._local, "group", None)

    def setJobGroup(  # noqa: N802
        self,
        group: str,
        description: str,
        interruptOnCancel: bool = False,  # noqa: N803
    ) -> None:
        """See ``SparkContext.setJobGroup``; here it is a tag."""
        self._local.group = group

    def setJobDescription(self, description: str) -> None:  # noqa: N802
        """See ``SparkContext.setJobDescription``; a server takes none."""

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802
        """See ``SparkContext.getLocalProperty``; a server knows of groups only."""
        return self._group if key == GROUP else None

    def setLocalProperty(self, key: str, value: str | None) -> None:  # noqa: N802
        """See ``SparkContext.setLocalProperty``."""
        if key == GROUP:
            self._local.group = value

    def add_file(self, path: Path) -> None:
        """Let every task find a file by its name; once for each name.

        Parameters
        ----------
        path : Path
            Of this machine.
        """
        if path.name not in self._files:
            self.session.addArtifacts(str(path), file=True)
            self._files[path.name] = str(path)

    def add_package(self, archive: Path) -> None:
        """Let every task import what is in an archive.

        Parameters
        ----------
        archive : Path
            Of this machine.
        """
        self.session.addArtifacts(str(archive), pyfile=True)

    def stop(self) -> None:
        """End the session; the server stays."""
        self.session.stop()

    def is_running(self) -> bool:
        """See `Backend.is_running`."""
        return not self.session.is_stopped

    def setting(self, key: str, default: str) -> str:
        """See `Backend.setting`; a setting of the session, or one that its server started with."""
        return str(self.session.conf.get(key, default))

    def driver_host(self) -> str:
        """See `Backend.driver_host`: the address by which this process reaches the server."""
        with socket.create_connection((self.host, self.port), 10.0) as sock:
            return str(sock.getsockname()[0])

    @property
    def _server_master(self) -> str:
        return self.setting("spark.master", "")

    def executor_cores(self) -> list[int]:
        """See `Backend.executor_cores`; a server does not tell them one by one."""
        return []

    def task_attempts(self) -> int:
        """See `Backend.task_attempts`."""
        local = local_master(self._server_master)
        if local is None:
            return int(self.setting("spark.task.maxFailures", "4"))
        return int(local["failures"] or 1)

    def slots(self) -> int:
        """See `Backend.slots`: by the server's default parallelism, as a query shows it."""
        from pyspark.sql import functions

        numbers = self.session.range(0, 1 << 16).select(functions.spark_partition_id().alias("p"))
        cores = int(numbers.agg(functions.max("p")).first()[0]) + 1
        return max(1, cores // int(self.setting("spark.task.cpus", "1")) - self.taken)

    def registered(self) -> int:
        """See `Backend.registered`; a server does not tell."""
        return 0

    def tasks_started(self) -> int | None:
        """See `Backend.tasks_started`; a server does not tell."""
        return None

    def place_of_running(self, task: int) -> tuple[str, str] | None:
        """See `Backend.place_of_running`; a server does not tell."""
        return None

    def place_of_ended(self, stage: int, task: int) -> tuple[str, str] | None:
        """See `Backend.place_of_ended`; a server does not tell."""
        return None

    def where_to_look(self, executor: str | None) -> str:
        """See `Backend.where_to_look`."""
        return f"{self.master}: {SILENT}"

    def tasks_of(self, group: str) -> int | None:
        """See `Backend.tasks_of`; of a group that runs, one stands for all of them."""
        return len(self._running[group]) or None

    def cancel(self, group: str, timeout: float) -> None:
        """See `Backend.cancel`."""
        with self._lock:
            self._cancelled.add(group)
        if self.is_running():
            # What has been sent may not be known there yet.
            self._interrupt(group, timeout, lambda: bool(self._running[group]))

    def _interrupt(self, tag: str, timeout: float, wanted: Callable[[], bool]) -> None:
        def interrupt() -> None:
            waited = threading.Event()
            for _ in range(max(1, int(timeout / AGAIN))):
                if not wanted() or not self.is_running():
                    return
                self.session.interruptTag(tag)
                waited.wait(AGAIN)

        in_thread(f"tos-cancel-{tag}", interrupt)

    def kill(self, task: int, group: str, reason: str, timeout: float) -> None:
        """See `Backend.kill`; a server can end a whole job only, whose workers then start again."""
        with self._lock:
            jobs = list(self._running[group])
            if task in self._killed or not jobs:
                return
            self._killed.add(task)
            self._lost.update(dict.fromkeys(jobs, (task, reason)))
        for job in jobs:
            # By its own tag: the one that comes in its place has another.
            self._interrupt(job, timeout, partial(self._lost.__contains__, job))


class Cancelled(Exception):
    """A job was canceled from here; the text is that of Spark's own error."""


def _value(sent: Sent) -> Any:
    return sent.value


def _is_large(values: Sequence[Any]) -> bool:
    """Whether values are more than numbers."""
    return not all(isinstance(value, int) for value in values)


_contexts: dict[str, RemoteContext] = {}


def is_remote(value: Any) -> bool:
    """Whether a value is of Spark Connect: a session, or a DataFrame of one."""
    return type(value).__module__.startswith("pyspark.sql.connect")


def context_of_session(session: Any) -> RemoteContext:
    """Return what a session of Spark Connect has in place of a context; the same one each time."""
    for known, context in list(_contexts.items()):
        with suppress(Exception):
            if context.session.is_stopped:
                del _contexts[known]
    found = _contexts.get(session.session_id)
    if found is None:
        found = _contexts[session.session_id] = RemoteContext(session)
    return found


def latest() -> RemoteContext | None:
    """Return the context of the session that was used first of those that still run."""
    running = [context for context in _contexts.values() if context.is_running()]
    return running[-1] if running else None
