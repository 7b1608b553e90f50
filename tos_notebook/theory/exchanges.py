"""What an exchange costs by each way of training, and how fast a cluster trains.

P bytes of parameters, n workers, H batches of b rows between two exchanges, t seconds a batch;
α, β and γ as in `tos_notebook.reduction.costs`: the latency of a message, and the seconds that a
byte takes through a link in one direction, and in an addition. The slowest worker takes s times
as long as the others.

A server is the driver, or S shards. It merges, decrypts and encrypts a byte in σ = γ + 2τ seconds
on each of c cores; in the memory of one host nothing is encrypted, and σ is γ. Where no worker
waits, an exchange takes E = 2α + 2Pβ + Pσ through the driver, and E = 4α + (1 + 1/S)Pβ + Pσ/S
through shards. The worker's own link carries all parts, and a part comes back while the next is
sent; and the worker asks the driver, too.

All workers together exchange as often as the customers of a closed network of queues come round;
see `tos_notebook.theory.queues`. Training and messages delay each worker. The links to servers, the
one from the last server, and the cores of servers are queues. What a round takes longer than
Ht + E, a worker waits. Servers exchange at most once in D = P max(β/S, σ/(Sc)) seconds. The
asymptotic bounds meet at n* = (Ht + E) / D workers.

Where all wait for each other, a round takes sHt and the time of the reduction; a byte that leaves a
host takes 2τ more, through the driver on min(n, c) cores. There
n* = (Ht + 2α) / (2Pβ + Pγ + 2Pτ/c): from there on the exchange takes longer than the computing.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..common.checks import did_you_mean
from ..errors import ConfigError
from ..reduction.costs import DELTA, GAMMA, costs
from .queues import Station, links, throughput

LATENCY = 1e-4
"""Seconds that a message takes in a usual cluster."""

BANDWIDTH = 1.25e9
"""Bytes a second, of 10 Gb/s."""

SHARDS = "ps:shards="
"""How the ways begin that have shards; then follows how many."""

TAU = 1 / 2e9
"""Seconds that a processor takes to encrypt a byte, or to decrypt it."""

SERVER_CORES = 2
"""Cores of the driver, and of each shard, that merge and encrypt."""

AMONG_WORKERS = ("ring", "direct", "halving", "two_level")
"""Algorithms of all-reduce that leave the driver out."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one way of training costs. All times are for one batch of each worker, on average."""

    name: str
    """How to choose it: a strategy, with its sync mode or its algorithm."""
    sync_interval: int
    """Batches between two exchanges."""
    compute: float
    """Seconds in which a worker trains."""
    exchange: float
    """Seconds in which its bytes are sent and added."""
    wait: float
    """Seconds in which it waits for the driver or shards, or for other workers."""
    merge: float
    """Seconds in which the driver adds what all workers bring, or each shard its part."""
    driver: float
    """Bytes a second that the driver's link carries, in each direction; with shards, that of each
    shard."""
    utilization: float
    """Of that link: these bytes by its bandwidth."""
    worker: float
    """Bytes a second that each worker sends, and receives; with two_level a leader, to others."""
    saturated_at: float
    """n*, the workers from which on the driver or its shards are the limit; infinite where workers
    exchange among themselves."""
    rows_per_second: float
    """Of all workers together."""

    @property
    def step(self) -> float:
        """Seconds from one batch of a worker to its next."""
        return self.compute + self.exchange + self.wait

    @property
    def seconds(self) -> float:
        """Seconds of one exchange."""
        return self.exchange * self.sync_interval


@dataclass(frozen=True, slots=True, repr=False)
class Costs:
    """What each way of training costs, for one model and one cluster. A cell shows a table."""

    setting: str
    """What was assumed, in words."""
    ways: tuple[Cost, ...]
    """Parameter server first."""

    def __iter__(self) -> Iterator[Cost]:
        return iter(self.ways)

    def __getitem__(self, name: str) -> Cost:
        """Return one way by its name, such as ``"ps asp"`` or ``"allreduce:ring"``."""
        for way in self.ways:
            if way.name == name:
                return way
        known = [way.name for way in self.ways]
        hint = did_you_mean(str(name), known)
        raise ConfigError(f"cost: expected one of {', '.join(known)}; got {name!r}.{hint}")

    def __repr__(self) -> str:
        cells = [*_HEAD, *map(_cells, self.ways)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
            for line in cells
        ]
        return "\n".join([self.setting, *lines])

    def _repr_html_(self) -> str:
        titles = (html.escape(" ".join(filter(None, title))) for title in zip(*_HEAD, strict=True))
        head = "".join(f"<th>{title}</th>" for title in titles)
        rows = "".join(
            f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in _cells(way))}</tr>"
            for way in self.ways
        )
        return f"<p>{html.escape(self.setting)}</p><table><tr>{head}</tr>{rows}</table>"


_HEAD = (
    (
        *("", "batches per", "step", "compute", "exchange", "wait", "merging"),
        *("driver's link", "driver's", "worker's link", "saturating", "all workers"),
    ),
    (
        *("", "exchange", *5 * ("ms/batch",)),
        *("MB/s", "link %", "MB/s", "workers", "rows/s"),
    ),
)
"""Two lines of text, or one cell."""


def _cells(way: Cost) -> tuple[str, ...]:
    times = way.step, way.compute, way.exchange, way.wait, way.merge
    links = way.driver / 1e6, 100 * way.utilization, way.worker / 1e6, way.saturated_at
    numbers = (f"{number:.3g}" for number in (*(1e3 * time for time in times), *links))
    return way.name, str(way.sync_interval), *numbers, f"{way.rows_per_second:,.0f}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The letters of the formulas.

    Parameters
    ----------
    nbytes : int
        P.
    workers : int or tuple of int
        n, each on a host of its own; or how many are on each host. Those of one host exchange
        through its memory, and the driver is there, too.
    t : float
        Seconds that a worker computes for a batch.
    rows : int
        b.
    alpha : float
        Seconds.
    bandwidth : float
        1/β, bytes a second.
    slowest : float
        s.
    """

    nbytes: int
    workers: int | tuple[int, ...]
    t: float
    rows: int
    alpha: float
    bandwidth: float
    slowest: float

    @property
    def n(self) -> int:
        """Return how many workers there are."""
        return self.workers if isinstance(self.workers, int) else sum(self.workers)

    @property
    def _hosts(self) -> list[int]:
        """Return the host of each worker; empty if each has one of its own."""
        if isinstance(self.workers, int):
            return []
        return [host for host, count in enumerate(self.workers) for _ in range(count)]

    @property
    def _link(self) -> float:
        """Return the bytes a second of each link."""
        return 1 / DELTA if self._alone else self.bandwidth

    @property
    def _alone(self) -> bool:
        """Return whether workers share one host with the driver."""
        return isinstance(self.workers, tuple) and len(self.workers) == 1

    @property
    def _serving(self) -> float:
        """Return σ."""
        return GAMMA + self._crypto

    @property
    def _crypto(self) -> float:
        """Return 2τ; 0 where processes share memory."""
        return 0.0 if self._alone else 2 * TAU

    def ways(self, every: int, shards: Sequence[int] = ()) -> tuple[Cost, ...]:
        """Return what each way costs.

        Parameters
        ----------
        every : int
            Batches between two exchanges, where workers do not exchange after each.
        shards : sequence of int
            How many there might be.
        """
        names = [f"allreduce:{each}" for each in ("star", *AMONG_WORKERS)]
        return (
            self.way("ps asp", every),
            *(self.way(f"{SHARDS}{count}", every) for count in shards),
            self.way("ps bsp", every),
            *(self.way(name, 1) for name in names),
            self.way(f"allreduce:parameters/{every}", every),
            self.way("treeaggregate", 1),
        )

    def way(self, name: str, every: int) -> Cost:
        """Return what one way costs, by its name; of ``allreduce:`` the fastest among workers."""
        if name == "ps asp":
            return self._asynchronous(name, every, 1, 2 * self.alpha)
        if name.startswith(SHARDS):
            return self._asynchronous(name, every, int(name.removeprefix(SHARDS)), 4 * self.alpha)
        kind, _, algorithm = name.partition(":")
        if kind != "allreduce":
            return self._together(name, "star", every)
        if algorithm in ("star", *AMONG_WORKERS):
            return self._together(name, algorithm, every)
        return min((self._together(name, a, every) for a in AMONG_WORKERS), key=lambda w: w.step)

    def _asynchronous(self, name: str, every: int, servers: int, messages: float) -> Cost:
        link, serving = self.nbytes / self._link, self.nbytes * self._serving / servers
        # The shards of one host share its memory, and are no faster than one.
        moving = links(link, 1 if self._alone else servers)
        alone = messages + sum(station.seconds for station in moving) + serving
        training = every * self.t
        free = (self.n - 1) / (training + alone) + 1 / (self.slowest * training + alone)
        own = self.n / free - alone
        stations = [
            Station(own + messages, math.inf),
            *moving,
            Station(serving, SERVER_CORES),
        ]
        wait = self.n / throughput(self.n, stations) - own - alone if self.n > 1 else 0.0
        busy = max(moving[0].seconds / moving[0].servers, serving / SERVER_CORES)
        return self._cost(
            name,
            every,
            (own, alone, max(0.0, wait)),
            through_driver=True,
            sent=self._sent("star"),
            saturated_at=(training + alone) / busy,
            servers=servers,
        )

    def _together(self, name: str, algorithm: str, every: int) -> Cost:
        reducing = costs(self.n, self.nbytes, self.alpha, self.bandwidth, self._hosts)
        # Leaders that have no others on their hosts are a ring.
        star = algorithm == "star"
        exchange = reducing.get(algorithm, reducing["ring"])
        exchange += self._crypto * (
            self.n / min(self.n, SERVER_CORES) * self.nbytes if star else self._sent(algorithm)
        )
        longer = every * self.t * (self.slowest - 1)
        training, waiting = every * self.t + longer / self.n, longer * (self.n - 1) / self.n
        adding = self.nbytes * (2 / self._link + GAMMA + self._crypto / SERVER_CORES)
        return self._cost(
            name,
            every,
            (training, exchange, waiting),
            through_driver=star,
            sent=self._sent(algorithm),
            saturated_at=(every * self.t + 2 * self.alpha) / adding if star else math.inf,
        )

    def _sent(self, algorithm: str) -> float:
        """Return the bytes that a worker sends for one exchange, and receives."""
        n, hosts = self.n, self.n if isinstance(self.workers, int) else len(self.workers)
        share = 2 * (n - 1) / n
        shares = {
            "star": 1.0,
            "halving": share + bool(n & (n - 1)),
            # On one host, its leader does it for all others.
            "two_level": 2 * (hosts - 1) / hosts if hosts > 1 else n - 1.0,
        }
        return self.nbytes * shares.get(algorithm, share)

    def _cost(
        self,
        name: str,
        every: int,
        seconds: tuple[float, float, float],
        *,
        through_driver: bool,
        sent: float,
        saturated_at: float,
        servers: int = 1,
    ) -> Cost:
        compute, exchange, wait = seconds
        round_trip, each = sum(seconds), self.n * self.nbytes / servers if through_driver else 0.0
        return Cost(
            name,
            every,
            compute=compute / every,
            exchange=exchange / every,
            wait=wait / every,
            merge=each * GAMMA / every,
            driver=each / round_trip,
            utilization=each / round_trip / self._link,
            worker=sent / round_trip,
            saturated_at=saturated_at,
            rows_per_second=self.n * every * self.rows / round_trip,
        )
