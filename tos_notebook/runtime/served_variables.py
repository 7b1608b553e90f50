"""The variables of a TF1-style graph on TensorFlow's servers, as the driver sees them."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..common.arrays import Array
from ..common.threads import in_thread
from ..errors import ClusterUnreachable, WaitTimeout
from ..readable import readable
from .import_guard import without_keras
from .served_graph import PS, REUSE, PackedGraph, accumulator, connect, reader_of, writer_of

with without_keras():
    import tensorflow as tf

STARTED = 120.0
"""Seconds for a server to start: it loads TensorFlow."""

END = 5.0
"""Seconds for a server to end."""

TURN = 0.2
"""Seconds between two looks at whether servers live, while one is to answer."""

Result = TypeVar("Result")


class VariableServers:
    """Processes of this machine, each with a TensorFlow server.

    Parameters
    ----------
    count : int
    """

    def __init__(self, count: int) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- it lasts as long as they do
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        # The variables' steps take little; GPUs are the workers'.
        environment |= {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
        environment |= {REUSE: "1"}
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tos_notebook.runtime.variable_server"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=environment,
            )
            for _ in range(count)
        ]
        self._ports: list[int] = []

    def ports(self) -> list[int]:
        """Return their ports, once all serve.

        Raises
        ------
        ClusterUnreachable
            One has ended.
        WaitTimeout
            One has not started in time.
        """
        deadline = time.monotonic() + STARTED
        for process in self._processes[len(self._ports) :]:
            assert process.stdout is not None
            if not select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[
                0
            ]:
                raise WaitTimeout(f"Expected TensorFlow's server to start within {STARTED:g} s.")
            line = process.stdout.readline()
            if not line.strip().isdigit():
                process.wait(END)
                self.check()
            self._ports.append(int(line))
        return self._ports

    def watch(self, call: Callable[[], Result]) -> Result:
        """Make a call of TensorFlow on the servers, and return what it does.

        TensorFlow itself waits for a server that has ended until `served_graph.ANSWER`. A thread
        does so, and the caller does not.

        Raises
        ------
        ClusterUnreachable
            One has ended, or ends meanwhile.
        """
        self.check()
        made = in_thread("served-variables", call)
        while True:
            try:
                return made.result(TURN)
            except (tf.errors.UnavailableError, tf.errors.AbortedError):
                # Its connections end before the process does.
                self._await_end()
                raise
            except TimeoutError:
                self.check()

    def _await_end(self) -> None:
        deadline, pause = time.monotonic() + END, threading.Event()
        while time.monotonic() < deadline:
            self.check()
            pause.wait(0.02)

    def check(self) -> None:
        """Raise ClusterUnreachable if one has ended."""
        for task, process in enumerate(self._processes):
            if process.poll() is not None:
                self._log.seek(0)
                said = self._log.read().decode(errors="replace").strip().splitlines()[-1:]
                raise ClusterUnreachable(
                    f"TensorFlow's server {PS}:{task} has ended with status {process.returncode}, "
                    "and its variables are lost. tos.resume continues from the last checkpoint."
                    + (f" It said: {readable(said[0], 300)}" if said else "")
                )

    def close(self) -> None:
        """End them; may be repeated."""
        for process in self._processes:
            process.kill()
            process.wait(END)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self._log.close()


class ServedVariables:
    """Reads and writes variables on servers. Any thread may call it.

    Parameters
    ----------
    packed : PackedGraph
    processes : VariableServers
    servers : sequence of str
        Their addresses, as host:port.
    values : mapping of str to ndarray
        To begin with, of all variables.
    """

    def __init__(
        self,
        packed: PackedGraph,
        processes: VariableServers,
        servers: Sequence[str],
        values: Mapping[str, Array],
    ) -> None:
        self._packed, self._processes, self._servers = packed, processes, list(servers)
        names = packed.parts.variables
        with tf.Graph().as_default() as graph:
            packed.add(names, {}, len(servers), "")
            self._reads, self._writes = {}, {}
            for name in names:
                op = graph.get_operation_by_name(name)
                with tf.device(packed.device(name, len(servers))):
                    self._reads[name], self._writes[name] = reader_of(op), writer_of(op)
        self._session = connect(graph, servers)
        self._steps: dict[tuple[int, ...], tuple[Any, Any, Any]] = {}
        self.write(values)

    def write(self, values: Mapping[str, Array]) -> None:
        """Assign values by the names of variables."""
        feed, runs = {}, []
        for name, value in values.items():
            placeholder, assign = self._writes[name]
            feed[placeholder] = value
            runs.append(assign)
        self._run(self._session, runs, feed)

    def read(self) -> dict[str, Array]:
        """Return the values of all variables, by name."""
        found: dict[str, Array] = self._run(self._session, self._reads)
        return found

    def _run(self, session: Any, fetches: Any, feed: Mapping[Any, Any] | None = None) -> Any:
        return self._processes.watch(lambda: session.run(fetches, feed))

    def update(self, shares: Mapping[int, float]) -> None:
        """Make the optimizer's step by the mean of the gradients that wait.

        Parameters
        ----------
        shares : mapping of int to float
            The share that each partition has in the mean; gradients of all of them wait.
        """
        partitions = tuple(shares)
        if partitions not in self._steps:
            self._steps[partitions] = self._step(partitions)
        session, weights, runs = self._steps[partitions]
        self._run(session, runs, {weights: list(shares.values())} | self._constants(session))

    def _constants(self, session: Any) -> dict[Any, Array]:
        return {
            session.graph.get_tensor_by_name(f"tos_constant_{index}:0"): value
            for index, value in enumerate(self._packed.constants.values())
        }

    def _step(self, partitions: Sequence[int]) -> tuple[Any, Any, Any]:
        packed, parts, count = self._packed, self._packed.parts, len(self._servers)
        with tf.Graph().as_default() as graph:
            with tf.device(f"/job:{PS}/task:0"):
                weights = tf.compat.v1.placeholder(tf.float64, [len(partitions)])
            given = {
                name: tf.compat.v1.placeholder(value.dtype, value.shape, f"tos_constant_{index}")
                for index, (name, value) in enumerate(packed.constants.items())
            }
            for variable, name in parts.gradients.items():
                taken = [
                    accumulator(packed, variable, partition, count).take_grad(1)
                    for partition in partitions
                ]
                with tf.device(packed.device(variable, count)):
                    shares = tf.unstack(tf.cast(weights, taken[0].dtype))
                    given[name] = tf.add_n([g * s for g, s in zip(taken, shares, strict=True)])
            needed = {*parts.update_needed, *parts.variables}
            packed.add(needed, given, count, f"/job:{PS}/task:0")
            runs = [graph.get_operation_by_name(name) for name in parts.update_runs]
        return connect(graph, self._servers), weights, runs

    def close(self) -> None:
        """Close the sessions, unless a server is lost, for which they would wait."""
        for session in (self._session, *(session for session, _, _ in self._steps.values())):
            try:
                self._processes.watch(session.close)
            except ClusterUnreachable:
                # Nor may it close itself when it is collected.
                session._closed = True
