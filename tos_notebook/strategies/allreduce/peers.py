"""How a worker reaches the other workers of its run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from ...errors import WorkerEnvironment
from ...reduction.choice import choose
from ...reduction.links import ask_none
from ...reduction.measuring import Speed, measure
from ...reduction.mesh import Mesh, Peer, PeerListener
from ...reduction.schedules import Schedule, direct, halving, ring, two_level
from ...reduction.sharing import Memory
from ...transport.base import Address
from ...wire.messages import Formed, Ready
from ...worker.exchange import WorkerContext

PATIENCE = 86_400.0
"""Seconds that another worker may compute between two exchanges, unless `worker_timeout` ends it.
One that dies is noticed at once, and one whose host is gone within a minute."""

FORMING = 10.0
"""Seconds to connect to all others, once all of them are there. The driver knows sooner whether
one of them has died."""

SLOWEST = 5e6
"""Bytes a second at which each worker gets the copy that it begins with. Some get it sooner."""

PLAIN_ENOUGH = 1 << 20
"""Bytes. Fewer go over plain TCP in the time that it takes to tell of shared memory."""

FIXED: dict[str, Callable[[int], Schedule]] = {"ring": ring, "direct": direct, "halving": halving}
"""The algorithms for any number of workers on any hosts."""

ADVICE = "Give executors more free ports in spark.tos.worker.port, such as 40000-40100."


class Links(NamedTuple):
    """Links to all other workers, and the algorithm for them."""

    mesh: Mesh
    schedule: Schedule
    speed: Speed | None
    """None where it was not measured: the algorithm was given, or there is one worker."""


class Peers:
    """Connects a worker to all others of a generation.

    Parameters
    ----------
    context : WorkerContext
    algorithm : {"auto", "ring", "direct", "halving", "two_level"}
        ``"auto"``: the fastest for the links, which are measured.
    nbytes : int
        Of what is exchanged.
    ask : callable
        See `Mesh`.

    Attributes
    ----------
    whole : bool
        Whether each partition takes part.
    memory : Memory
        For what is exchanged: workers on this host read it there.
    """

    def __init__(
        self,
        context: WorkerContext,
        algorithm: str,
        nbytes: int,
        ask: Callable[[int], object] = ask_none,
    ) -> None:
        self._secret = context.secret
        self._endpoint = replace(context.endpoint, advice=ADVICE)
        self._algorithm, self._nbytes = algorithm, nbytes
        self.memory = Memory(nbytes)
        self._ask = ask
        self._listener: PeerListener | None = None
        self._mesh: Mesh | None = None
        self.whole = False

    @property
    def formed(self) -> bool:
        """Whether it is connected."""
        return self._mesh is not None and not self._mesh.closed

    def ready(self, epoch: int) -> Ready:
        """Return what the others have to know.

        Raises
        ------
        TransportError
            No port of those that it may take is free.
        WorkerEnvironment
            The executor lacks a package.
        """
        address, fingerprint = self._listening().here
        return Ready(epoch, *address, fingerprint.hex() if fingerprint else "")

    def _listening(self) -> PeerListener:
        if self._listener is None:
            try:
                self._listener = PeerListener(self._secret, self._endpoint, PATIENCE)
            except ImportError as error:
                raise WorkerEnvironment(
                    f"Workers encrypt what they send each other, but executor host "
                    f"{self._endpoint.host} cannot import what that needs: {error}. Install "
                    "cryptography there, or train with strategy='allreduce:star'."
                ) from error
        return self._listener

    def form(self, message: Formed, copied: int) -> Links:
        """Connect to all others, and choose the algorithm.

        Parameters
        ----------
        message : Formed
        copied : int
            Bytes that each worker gets with it.

        Raises
        ------
        PeerLost, ConnectionClosed
            One cannot be reached, or was lost meanwhile.
        """
        places = zip(message.hosts, message.ports, message.fingerprints, strict=True)
        peers = [Peer(Address(host, port), bytes.fromhex(f) or None) for host, port, f in places]
        mesh = Mesh(
            self._listening(),
            message.rank,
            peers,
            message.generation,
            self._ask,
            self.memory,
            self._near(message),
        )
        self._mesh, self.whole = mesh, message.whole
        mesh.form(FORMING + copied / SLOWEST)
        if mesh.n == 1 or self._algorithm in FIXED:
            return Links(mesh, FIXED.get(self._algorithm, ring)(mesh.n), None)
        if self._algorithm == "two_level":
            return Links(mesh, two_level(message.hosts), None)
        speed = measure(mesh, message.hosts)
        latency, bandwidth, delta = speed
        schedule = choose(mesh.n, self._nbytes, latency, bandwidth, message.hosts, delta)
        return Links(mesh, schedule, speed)

    def _near(self, message: Formed) -> list[int]:
        """Return the ranks that may share memory with this one."""
        here = message.rank
        if self._nbytes < PLAIN_ENOUGH and not message.fingerprints[here]:
            return []
        return [rank for rank, host in enumerate(message.hosts) if host == message.hosts[here]]

    def cut(self) -> None:
        """End the links; the others notice."""
        if self._mesh is not None:
            self._mesh.close()
            self._mesh = None

    def close(self) -> None:
        """End the links, and stop listening."""
        self.cut()
        self.memory.close()
        if self._listener is not None:
            self._listener.close()
