"""The variables of a run: in this process before and after it, else on TensorFlow's servers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from ...common.arrays import Array, Buffer
from ...errors import CheckpointError
from ...layout import Layout
from ...nodes.ports import shield
from ...nodes.servers import stays_here

if TYPE_CHECKING:
    from ...runtime.served_graph import PackedGraph
    from ...runtime.served_variables import ServedVariables, VariableServers


class ServedParameters:
    """See `Parameters`; and what else the graph changes, such as the optimizer's state.

    Parameters
    ----------
    layout : Layout
    initial : ndarray, shape (layout.nbytes,), uint8
        Copied.
    packed : PackedGraph
    servers : int
        How many keep the variables.
    host : str
        Where executors reach this process.
    """

    def __init__(
        self, layout: Layout, initial: Buffer, packed: PackedGraph, servers: int, host: str
    ) -> None:
        self.layout = layout
        self.version = 0
        self.torn: str | None = None
        self._packed, self._count, self._host = packed, servers, host
        self._names = packed.parts.variables
        self._values = packed.values() | self._by_name(initial)
        self._lock = threading.RLock()
        self._servers: VariableServers | None = None
        self._served: ServedVariables | None = None
        self._shields: list[socket.socket] = []
        self.addresses: list[str] = []

    def _by_name(self, buffer: Buffer) -> dict[str, Array]:
        tensors = [value.copy() for value in self.layout.tensors(buffer).values()]
        return dict(zip(self._names, tensors, strict=False))

    def start(self) -> None:
        """Start the servers, unless they are there; return without waiting for them."""
        from ...runtime.served_variables import VariableServers

        with self._lock:
            if self._servers is None:
                self._servers = VariableServers(self._count)

    def serve(self) -> None:
        """Let the servers have the variables, unless they have them; see `VariableServers`."""
        from ...runtime.served_variables import ServedVariables

        with self._lock:
            self.start()
            assert self._servers is not None
            if self._served is None:
                host = f"[{self._host}]" if ":" in self._host else self._host
                if stays_here(self._host):
                    self._shields = [s for port in self._servers.ports() for s in shield(port)]
                self.addresses = [f"{host}:{port}" for port in self._servers.ports()]
                place = self._servers, self.addresses
                self._served = ServedVariables(self._packed, *place, self._values)

    def check(self) -> None:
        """Raise ClusterUnreachable if a server was lost."""
        servers = self._servers
        if servers is not None:
            servers.check()

    def close(self) -> None:
        """Take the variables back, and end the servers; may be repeated."""
        with self._lock:
            served, self._served = self._served, None
            servers, self._servers = self._servers, None
            if servers is None:
                return
            try:
                if served is not None:
                    with closing(served):
                        self._values = served.read()
            finally:
                servers.close()
                for sock in self._shields:
                    sock.close()

    def _read(self) -> dict[str, Array]:
        with self._lock:
            return self._values if self._served is None else self._served.read()

    def write(self, values: Mapping[str, Array]) -> None:
        """Assign variables by name."""
        with self._lock:
            self._values = {**self._values, **values}
            if self._served is not None:
                self._served.write(values)

    def read(self, out: Buffer | None = None, patience: float | None = None) -> tuple[Buffer, int]:
        """See `Parameters.read`."""
        version = self.version
        values = self._read()
        found = [values[name] for name in self._names[: len(self.layout.specs)]]
        buffer = self.layout.allocate() if out is None else out
        return self.layout.pack(found, buffer), version

    def load(self, buffer: Buffer) -> None:
        """See `Parameters.load`."""
        self.write(self._by_name(buffer))

    def set_learning_rate(self, value: float) -> None:
        """Assign the variable of the learning rate."""
        name = self._packed.parts.rate
        if name is not None:
            dtype = self._values[name].dtype
            self.write({name: np.asarray(value, dtype)})

    def update(self, shares: Mapping[int, float]) -> int:
        """Make a step by the gradients that wait; return the version. See `ServedVariables`."""
        with self._lock:
            assert self._served is not None
            self._served.update(shares)
            self.version += 1
            return self.version

    def count(self) -> int:
        """Return the version after another milestone."""
        with self._lock:
            self.version += 1
            return self.version

    def all(self) -> list[Array]:
        """Return copies of all variables, those of the layout first."""
        values = self._read()
        return [np.array(values[name]) for name in self._names]

    def restore(self, values: Sequence[Array], version: int) -> None:
        """Continue from what `all` returned.

        Raises
        ------
        CheckpointError
            They are of another graph; nothing was changed.
        """
        expected = [(self._values[name].shape, self._values[name].dtype) for name in self._names]
        if [(value.shape, value.dtype) for value in values] != expected:
            raise CheckpointError(
                f"The checkpoint is of another graph: expected {len(expected)} variables, got "
                f"{len(values)} of other shapes or dtypes."
            )
        self.write(dict(zip(self._names, values, strict=True)))
        self.version = version
