"""The clusters that faults are tried on, and connecting to them."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import tos_notebook as tos
from tests.unit.worker.support import until
from tos_notebook.cluster.executors import slots

from . import processes
from .network import HERE, THERE, Wire

ROOT = Path(__file__).parents[2]

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    # As connect() does for local[N]: a worker that takes a dead one's place has TensorFlow at once.
    "spark.python.daemon.module": "tos_notebook.cluster.daemon",
}


HOSTS = tuple(f"127.0.0.{number}" for number in range(1, 5))
"""Of the standalone nodes: Spark takes each for a machine."""

REGISTERED = 60.0
"""Seconds for a node to register at Spark, with the executor on it."""

NODE_MANAGERS = 6
"""Of YARN: none of them is started again when it was killed."""


class Cluster:
    """A cluster that lasts for many cases; a context manager.

    Parameters
    ----------
    kind : {"local", "local-cluster", "standalone", "yarn", "wire"}
        ``"wire"``: standalone, with one of the two nodes in a network of its own.

    Attributes
    ----------
    wire : Wire or None
        What leads to that node.
    """

    slots = 2
    """Of the workers."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._beside = 0
        self.servers: Any = None
        self.wire: Wire | None = None
        self._here = "127.0.0.1"
        self._stack = ExitStack()
        self._config: dict[str, str] | None = None
        self._spark: Any = None

    def __enter__(self) -> Cluster:
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ["PYSPARK_PYTHON"] = sys.executable
        if self.kind == "standalone":
            from tests.clusters.standalone import Standalone

            # One core each, so that every partition has a node of its own.
            self.servers = self._stack.enter_context(
                Standalone(self.folder / "standalone", nodes=1, cores=1)
            )
            self.heal()
        elif self.kind == "wire":
            from tests.clusters.standalone import Standalone

            self._here = HERE
            self.wire = self._stack.enter_context(Wire())
            self.servers = self._stack.enter_context(
                Standalone(self.folder / "standalone", nodes=1, cores=1, host=HERE)
            )
            self.servers.add_node(host=THERE, prefix=self.wire.prefix)
        elif self.kind == "yarn":
            from tests.clusters.hadoop import Hadoop

            self.servers = self._stack.enter_context(
                Hadoop(self.folder / "hadoop", data_nodes=1, node_managers=NODE_MANAGERS)
            )
            os.environ["HADOOP_CONF_DIR"] = str(self.servers.conf_dir)
        return self

    def __exit__(self, *error: object) -> None:
        self.disconnect()
        self._stack.close()

    @property
    def master(self) -> str:
        """What to connect to."""
        if self.kind in ("standalone", "wire"):
            return str(self.servers.master)
        count = self.slots + self._beside
        return {
            "local": f"local[{count},4]",
            "local-cluster": f"local-cluster[{count},1,1024]",
        }.get(self.kind, self.kind)

    def connect(self, config: Mapping[str, str], beside: int = 0) -> Any:
        """Return a Spark context; the present one if it fits.

        Parameters
        ----------
        config : mapping of str
            Settings beside our own.
        beside : int
            Slots beside the workers'.
        """
        if beside != self._beside:
            self._beside = beside
            self.heal()
        here = dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), self._here)
        count = str(self.slots + beside)
        counts = {"spark.cores.max": count, "spark.executor.instances": count}
        wanted = {**SETTINGS, **counts, **here, **config}
        if self.kind == "local":
            del wanted["spark.executor.memory"]
        if self._spark is not None and (self._config != wanted or self._is_stopped()):
            self.disconnect()
        if self._spark is None:
            self._config = wanted
            self._spark = tos.connect(self.master, config=wanted)
        sc = self._spark.sparkContext
        if self.kind == "standalone":
            # A node that was killed before has to register again.
            until(lambda: slots(sc) >= self.slots + beside, REGISTERED)
        return sc

    def _is_stopped(self) -> bool:
        sc = self._spark.sparkContext
        return sc._jsc is None or bool(sc._jsc.sc().isStopped())

    def disconnect(self) -> None:
        """Stop Spark, if it runs."""
        if self._spark is not None:
            self._spark.stop()
            self._spark = None

    def kill_node(self, executor: int) -> None:
        """Kill the node that an executor runs on, and all that runs there.

        Parameters
        ----------
        executor : int
            Its JVM's pid.
        """
        if self.kind == "standalone":
            (node,) = (node for node in self.servers.nodes if executor in node.executors)
            node.kill()
            return
        port = int(processes.environment(executor)["NM_PORT"])
        # Without a last word, like a machine that loses power. A node manager that is stopped asks
        # its containers to end, and an application master that is asked says that all is well.
        processes.kill(*processes.with_environment("NM_PORT", str(port)))
        for number in range(NODE_MANAGERS):
            manager = self.servers.yarn.getNodeManager(number)
            if manager.getNMContext().getNodeId().getPort() == port:
                manager.stop()

    def heal(self) -> None:
        """Start again what a case has killed."""
        if self.kind == "standalone":
            present = {node.host for node in self.servers.nodes if processes.alive(node.pid)}
            for host in HOSTS[: self.slots + self._beside]:
                if host not in present:
                    self.servers.add_node(host=host)
        elif self.kind == "wire":
            self.wire.connect()
