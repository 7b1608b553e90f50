"""A real standalone cluster of Spark's, from the pip wheel, on random ports of this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.clusters.jars import WHEEL

ROOT = Path(__file__).parents[2]

START_TIMEOUT = 60.0
"""Seconds for a JVM to start and to say that it is ready."""

STOP_TIMEOUT = 30.0

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
RANDOM_PORTS = ("--port", "0", "--webui-port", "0")

JVM = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""They start faster so, and leave the cores to the executors."""

EXECUTOR = "CoarseGrainedExecutorBackend"


class Server:
    """One of Spark's servers: a process that ends with this one, and its log.

    Parameters
    ----------
    arguments : sequence of str
        The server's class and its arguments.
    ready : str
        A pattern of the line that it logs once it serves.
    log : Path
    environment : mapping of str
        Beside this process's own.
    prefix : sequence of str
        A command that executes another one, such as ``ip netns exec NAME``.
    """

    limit = START_TIMEOUT

    def __init__(
        self,
        arguments: Sequence[str],
        ready: str,
        log: Path,
        environment: Mapping[str, str],
        prefix: Sequence[str] = (),
    ) -> None:
        self.log = log
        # All of them replace themselves by the next: the pid is the server's.
        command = ["setpriv", "--pdeathsig", "TERM", *prefix, str(WHEEL / "bin" / "spark-class")]
        self._process = subprocess.Popen(
            [*command, *arguments],
            env={**os.environ, "SPARK_HOME": str(WHEEL), **JVM, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._said: re.Match[str] | None = None
        self._decided = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(re.compile(ready),), daemon=True)
        self._reader.start()

    def wait(self) -> re.Match[str]:
        """Wait until it serves; return what it said then."""
        if not self._decided.wait(self.limit) or self._said is None:
            self.kill()
            raise RuntimeError(f"A server does not start:\n{self.log.read_text()[-4000:]}")
        return self._said

    def _read(self, ready: re.Pattern[str]) -> None:
        """Copy what the server says to its log, and look for the line."""
        assert self._process.stdout is not None
        with self._process.stdout as lines, self.log.open("w") as log:
            for line in lines:
                log.write(line)
                log.flush()
                if self._said is None and (found := ready.search(line)):
                    self._said = found
                    self._decided.set()
        self._decided.set()

    @property
    def pid(self) -> int:
        """Of the server's JVM."""
        return self._process.pid

    def stop(self) -> None:
        """Ask the server to end, and wait; harmless when repeated."""
        self._process.terminate()
        self._end()

    def kill(self) -> None:
        """End the server and all processes below it at once, as a machine does that fails."""
        # Before the server, whose children would have another parent afterwards.
        for pid in [*descendants(self.pid), self.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._end()

    def _end(self) -> None:
        self._process.wait(STOP_TIMEOUT)
        self._reader.join(STOP_TIMEOUT)


class Node(Server):
    """A worker node: Spark's ``Worker`` and what it starts.

    Parameters
    ----------
    master : str
        ``spark://host:port``
    folder : Path
    host : str
        The address that the node and its executors listen on and tell.
    cores : int
    memory : str
        For executors, as ``2g``.
    environment, prefix
        As of `Server`.
    """

    def __init__(
        self,
        master: str,
        folder: Path,
        *,
        host: str,
        cores: int,
        memory: str,
        environment: Mapping[str, str],
        prefix: Sequence[str] = (),
    ) -> None:
        folder.mkdir(parents=True)
        self.host = host
        local = {"SPARK_LOCAL_DIRS": str(folder / "local"), "SPARK_LOCAL_IP": host}
        resources = ["--cores", str(cores), "--memory", memory, "--work-dir", str(folder / "work")]
        super().__init__(
            [WORKER, "--host", host, *RANDOM_PORTS, *resources, master],
            "Successfully registered with master",
            folder / "worker.log",
            {**environment, **local},
            prefix,
        )

    @property
    def executors(self) -> list[int]:
        """The pids of the executors' JVMs."""
        return [pid for pid in descendants(self.pid) if EXECUTOR in command_line(pid)]

    @property
    def python_workers(self) -> list[int]:
        """The pids of the Python workers, the daemons that forked them left out."""
        daemons = [
            pid
            for pid in descendants(self.pid)
            if re.search(r"pyspark\.daemon|tos_notebook\.cluster\.daemon", command_line(pid))
        ]
        # A worker is forked: it has its daemon's command line.
        return [pid for pid in daemons if parent(pid) in daemons]


class Standalone:
    """A master and worker nodes; leaving the ``with`` block stops them.

    Parameters
    ----------
    folder : Path
        For all that they write.
    nodes : int
        To begin with.
    host : str
        The master's address, and that of the first nodes.
    cores, memory : int, str
        Of each node, for executors.
    environment : mapping of str, optional
        Of the nodes and their executors, whose Python finds this package by default.
    """

    def __init__(
        self,
        folder: Path,
        nodes: int = 2,
        *,
        host: str = "127.0.0.1",
        cores: int = 2,
        memory: str = "2g",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._defaults: dict[str, Any] = {"host": host, "cores": cores, "memory": memory}
        self._environment = {"PYTHONPATH": str(ROOT)} if environment is None else environment
        self._master = Server(
            [MASTER, "--host", host, *RANDOM_PORTS],
            r"Starting Spark master at (spark://\S+)",
            folder / "master.log",
            {"SPARK_LOCAL_IP": host},
        )
        self.nodes: list[Node] = []
        self.master = self._master.wait()[1]
        try:
            for _ in range(nodes):
                self._start_node()
            for node in self.nodes:
                node.wait()
        except BaseException:
            self.stop()
            raise

    def add_node(self, *, prefix: Sequence[str] = (), **options: Any) -> Node:
        """Start another worker node, and wait until the master has it.

        Parameters
        ----------
        prefix : sequence of str
            Such as ``ip netns exec NAME``, to be in a network namespace.
        **options
            ``host``, ``cores``, ``memory``, where they differ from the cluster's.
        """
        node = self._start_node(prefix=prefix, **options)
        node.wait()
        return node

    def _start_node(self, **options: Any) -> Node:
        folder = self._folder / f"node-{len(self.nodes)}"
        options = {"environment": self._environment, **self._defaults, **options}
        self.nodes.append(Node(self.master, folder, **options))
        return self.nodes[-1]

    @property
    def executors(self) -> list[int]:
        """The pids of all executors' JVMs."""
        return [pid for node in self.nodes for pid in node.executors]

    @property
    def python_workers(self) -> list[int]:
        """The pids of all Python workers."""
        return [pid for node in self.nodes for pid in node.python_workers]

    def stop(self) -> None:
        """Stop all nodes and the master; harmless when repeated."""
        for server in [*self.nodes, self._master]:
            server.stop()

    def __enter__(self) -> Standalone:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def parent(pid: int) -> int:
    """Return a process's parent; 0 if there is no such process."""
    with suppress(OSError):
        # The name, in parentheses, may hold spaces.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def command_line(pid: int) -> str:
    """Return a process's command line; empty if there is no such process."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def descendants(pid: int) -> list[int]:
    """Return the pids of all processes below one."""
    parents = {int(path.name): parent(int(path.name)) for path in Path("/proc").glob("[0-9]*")}

    def below(above: int) -> Iterator[int]:
        for child, its_parent in parents.items():
            if its_parent == above:
                yield child
                yield from below(child)

    return list(below(pid))
