"""What an exchange costs by each way of training, and how fast a cluster trains.

P bytes of parameters, n workers, H batches of b rows between two exchanges, t seconds a batch;
α, β and γ as in `tos_notebook.reduction.costs`: the latency of a message, and the seconds that a
byte takes through a link in one direction, and in an addition. The slowest worker takes s times
as long as the others.

Where no worker waits, an exchange takes E = 2α + 2Pβ + Pγ. The driver's link carries one push at a
time, for D = P max(β, γ). So all workers together exchange at most 1/D times a second, and at most
as often as they would if each were alone, n / (Ht + E): the asymptotic bounds of a closed network
of queues (Denning and Buzen 1978, "The operational analysis of queueing network models", ACM
Computing Surveys 10(3)). They meet at n* = (Ht + E) / D workers. What the second bound is above the
first, workers wait.

Where all wait for each other, a round takes sHt and the time of the reduction. Through the driver
n* = (Ht + 2α) / (2Pβ + Pγ): from there on the exchange takes longer than the computing.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

from ..common.checks import at_least_one, at_least_zero, positive
from ..errors import ConfigError
from ..reduction.costs import GAMMA, costs

LATENCY = 1e-4
"""Seconds that a message takes in a usual cluster."""

BANDWIDTH = 1.25e9
"""Bytes a second, of 10 Gb/s."""

AMONG_WORKERS = ("ring", "direct", "halving")
"""Algorithms of all-reduce that leave the driver out."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one way of training costs. Times are means over workers, for one batch of each."""

    name: str
    """How to choose it: a strategy, with its sync mode or its algorithm."""
    sync_interval: int
    """Batches between two exchanges."""
    compute: float
    """Seconds of a step in which a worker trains."""
    exchange: float
    """Seconds of a step in which its bytes travel and are added."""
    wait: float
    """Seconds of a step in which it waits for the driver's link, or for other workers."""
    merge: float
    """Seconds of a round of exchanges, one of each worker, in which the driver adds."""
    driver: float
    """Bytes a second that the driver's link carries, in each direction."""
    utilization: float
    """Of the driver's link: that by its bandwidth."""
    worker: float
    """Bytes a second that each worker's link carries, in each direction."""
    saturated_at: float
    """n*, the workers from which on the driver is the limit; infinite where it carries nothing."""
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
        known = ", ".join(way.name for way in self.ways)
        raise ConfigError(f"cost: expected one of {known}; got {name!r}.")

    def __repr__(self) -> str:
        cells = [_HEAD, *map(_cells, self.ways)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
            for line in cells
        ]
        return "\n".join([self.setting, *lines])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in _HEAD)
        rows = "".join(
            f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in _cells(way))}</tr>"
            for way in self.ways
        )
        return f"<p>{html.escape(self.setting)}</p><table><tr>{head}</tr>{rows}</table>"


_HEAD = (
    *("", "H", "step ms", "compute ms", "exchange ms", "wait ms", "merge ms"),
    *("driver MB/s", "driver %", "worker MB/s", "n*", "rows/s"),
)


def _cells(way: Cost) -> tuple[str, ...]:
    times = way.step, way.compute, way.exchange, way.wait, way.merge
    links = way.driver / 1e6, 100 * way.utilization, way.worker / 1e6, way.saturated_at
    numbers = (f"{number:.3g}" for number in (*(1e3 * time for time in times), *links))
    return way.name, str(way.sync_interval), *numbers, f"{way.rows_per_second:,.0f}"


@dataclass(frozen=True, slots=True)
class _Cluster:
    """The letters of the formulas."""

    nbytes: int
    n: int
    t: float
    rows: int
    alpha: float
    bandwidth: float
    slowest: float

    def asynchronous(self, every: int) -> Cost:
        alone = 2 * self.alpha + self.nbytes * (2 / self.bandwidth + GAMMA)
        busy = self.nbytes * max(1 / self.bandwidth, GAMMA)
        training = every * self.t
        free = (self.n - 1) / (training + alone) + 1 / (self.slowest * training + alone)
        each = self.n / free
        return self._cost(
            "ps asp",
            every,
            (each - alone, alone, max(0.0, self.n * busy - each)),
            through_driver=True,
            sent=self.nbytes,
            saturated_at=(training + alone) / busy,
        )

    def together(self, name: str, algorithm: str, every: int) -> Cost:
        reducing = costs(self.n, self.nbytes, self.alpha, self.bandwidth)
        longer = every * self.t * (self.slowest - 1)
        training, waiting = every * self.t + longer / self.n, longer * (self.n - 1) / self.n
        star = algorithm == "star"
        shared = 2 * (self.n - 1) / self.n + (algorithm == "halving" and not _is_power(self.n))
        adding = self.nbytes * (2 / self.bandwidth + GAMMA)
        return self._cost(
            name,
            every,
            (training, reducing[algorithm], waiting),
            through_driver=star,
            sent=self.nbytes if star else shared * self.nbytes,
            saturated_at=(every * self.t + 2 * self.alpha) / adding if star else math.inf,
        )

    def _cost(
        self,
        name: str,
        every: int,
        seconds: tuple[float, float, float],
        *,
        through_driver: bool,
        sent: float,
        saturated_at: float,
    ) -> Cost:
        compute, exchange, wait = seconds
        round_trip, each = sum(seconds), self.n * self.nbytes if through_driver else 0
        return Cost(
            name,
            every,
            compute=compute / every,
            exchange=exchange / every,
            wait=wait / every,
            merge=each * GAMMA,
            driver=each / round_trip,
            utilization=each / round_trip / self.bandwidth,
            worker=sent / round_trip,
            saturated_at=saturated_at,
            rows_per_second=self.n * every * self.rows / round_trip,
        )


def _nbytes(program: Any) -> int:
    layout = getattr(program, "layout", None)
    if layout is None and not isinstance(program, Real):
        raise ConfigError(
            "program: expected what tos.capture(model) returns, or the bytes of its parameters; "
            f"got {program!r} of type {type(program).__name__}."
        )
    return at_least_one("program", program if layout is None else layout.nbytes)


def _is_power(n: int) -> bool:
    return not n & (n - 1)


def cost(
    program: Any,
    *,
    batch_seconds: float,
    workers: int = 4,
    batch_size: int = 100,
    sync_interval: int = 10,
    latency: float = LATENCY,
    bandwidth: float = BANDWIDTH,
    slowest: float = 1.0,
) -> Costs:
    """Return what each way of training costs, by formulas; nothing is measured.

    The formulas are those of the module `tos_notebook.theory.exchanges`, and of
    `tos_notebook.reduction.costs` for reductions (ring: Patarasuk and Yuan 2009, JPDC 69(2)).
    They leave out what Spark, Python and the operating system take.

    Parameters
    ----------
    program : Program or int
        What `tos_notebook.capture` returns, or the bytes of its parameters, from 1.
    batch_seconds : float
        Seconds that a worker computes for a batch, above 0.
    workers : int
        At least 1.
    batch_size : int
        Rows, at least 1.
    sync_interval : int
        Batches between two exchanges, at least 1. Tree aggregation exchanges after each.
    latency : float
        Seconds that a short message takes, at least 0.
    bandwidth : float
        Bytes a second of each link in one direction, above 0.
    slowest : float
        How many times as long the slowest worker takes for a batch, at least 1.

    Returns
    -------
    Costs
        ``ps asp``, ``ps bsp``, ``allreduce:star``, ``allreduce:ring``, ``allreduce:direct``,
        ``allreduce:halving`` and ``treeaggregate``.

    Raises
    ------
    ConfigError
        A value out of range, or a model that was not captured.
    """
    cluster = _Cluster(
        _nbytes(program),
        at_least_one("workers", workers),
        positive("batch_seconds", batch_seconds),
        at_least_one("batch_size", batch_size),
        at_least_zero("latency", latency),
        positive("bandwidth", bandwidth),
        positive("slowest", slowest),
    )
    if slowest < 1:
        raise ConfigError(f"slowest: expected a number of at least 1, got {slowest!r}.")
    every = at_least_one("sync_interval", sync_interval)
    algorithms = ("star", *AMONG_WORKERS)
    return Costs(
        f"{cluster.nbytes / 1e6:,.3g} MB of parameters, {workers} workers, "
        f"{1e3 * batch_seconds:.3g} ms for a batch of {batch_size}; links of "
        f"{bandwidth / 1e6:,.4g} MB/s and {1e3 * latency:.3g} ms",
        (
            cluster.asynchronous(every),
            cluster.together("ps bsp", "star", every),
            *(cluster.together(f"allreduce:{each}", each, every) for each in algorithms),
            cluster.together("treeaggregate", "star", 1),
        ),
    )
