"""`scaling`: how many pushes a second a cluster makes, from few workers to thousands of hosts.

The network of queues of `tos_notebook.theory.queueing`. A worker computes, and then its bytes cross
the link of its host, that of the server's host, and the server's process. The answer goes back the
same way. Links carry both directions at once, and send bytes on as they come. Workers of one host
share its link. The driver, and each shard, have a separate host, and a process that serves one push
at a time.

With shards, a push leaves a part at each of them, one after the other, and each answers while the
next part is sent. Then the driver counts the push, and each shard merges its part. All shards have
the same to do, and every push goes to all of them. So one shard stands for all, the one whose part
comes last.

All-reduce has no queue: a round takes as long as the slowest worker computes, and the time that
`tos_notebook.reduction.costs` gives.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from ..common.checks import at_least_one, at_least_zero, positive, with_known_options
from ..errors import ConfigError
from ..reduction.costs import costs
from .cost import nbytes_of
from .exchanges import AMONG_WORKERS, BANDWIDTH, LATENCY
from .queueing import Visit, simulate_network, unloaded

SATURATED = 0.8
"""A server is saturated where workers push less often than this share of what each would alone."""

COMPUTING = "workers"
"""What limits a curve that is not saturated."""

WORKERS_LINKS = "workers' links"

_LEAST, _PUSHES = 3, 2000
"""Rounds of each worker that are simulated, at least, and pushes of all together."""

_ROUNDS = 64
"""Of all-reduce, of which the slowest workers are averaged."""

WORKERS = (4, 16, 64, 256, 1024, 4096, 10_000)

WAYS = ("ps", "ps:shards=2", "ps:shards=4", "ps:shards=16", "allreduce")


class ProcessTime(NamedTuple):
    """What a push takes of one core of a process; `benchmarks/scale/workers.py` measures it."""

    seconds: float
    """Of each push."""
    per_byte: float
    """In addition, for each byte of the parameters that it has: both directions, with TLS."""

    def of(self, nbytes: float) -> float:
        """Return the seconds of one push."""
        return self.seconds + self.per_byte * nbytes


DRIVER = ProcessTime(4.2e-4, 2.0e-9)
"""The driver, as a parameter server."""

SHARD = ProcessTime(5.5e-4, 2.0e-9)
"""A shard, for its part."""

COUNT = ProcessTime(2.8e-4, 0.0)
"""The driver, where shards have the parameters."""

WORKER = ProcessTime(3.0e-4, 1.9e-9)
"""A worker, with no computing."""


class Point(NamedTuple):
    """One point of a curve."""

    workers: int
    """How many there are."""
    rate: float
    """Pushes a second, of all workers together; with all-reduce each worker's part in a round."""
    exchange: float
    """Mean seconds from the end of a worker's computing to its next beginning."""
    share: float
    """The rate over what it would be if each worker were alone; with all-reduce, if there were two
    that wait for the slowest of all."""
    limit: str
    """``workers`` while it is not saturated; else what is busiest, such as ``driver's link``."""


@dataclass(frozen=True, slots=True)
class Curve:
    """How one way of training scales."""

    way: str
    points: tuple[Point, ...]

    @property
    def saturated_at(self) -> float:
        """Workers from which on it is saturated; infinite if it is not with any of these numbers.

        There it falls below `SATURATED` of what as many workers would do if each were alone.
        """
        return saturation([(point.workers, point.share) for point in self.points])


@dataclass(frozen=True, slots=True, repr=False)
class Scaling:
    """How ways of training scale, for one model and one kind of cluster. A cell shows a table."""

    setting: str
    """What was assumed, in words."""
    curves: tuple[Curve, ...]

    def __getitem__(self, way: str) -> Curve:
        """Return one curve by its way, such as ``"ps:shards=4"``."""
        for curve in self.curves:
            if curve.way == way:
                return curve
        known = ", ".join(curve.way for curve in self.curves)
        raise ConfigError(f"scaling: expected one of {known}; got {way!r}.")

    def _rows(self) -> list[list[str]]:
        head = ["workers", *(curve.way for curve in self.curves)]
        columns = [curve.points for curve in self.curves]
        rows = [
            [f"{points[0].workers:,}", *(f"{point.rate:,.4g}" for point in points)]
            for points in zip(*columns, strict=True)
        ]
        last = ["saturated at", *(_count(curve.saturated_at) for curve in self.curves)]
        limits = ["limit", *(curve.points[-1].limit for curve in self.curves)]
        return [head, *rows, last, limits]

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        return "\n".join([self.setting, *lines])

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        titles = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
        lines = "".join(
            f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
        )
        return f"<p>{html.escape(self.setting)}</p><table><tr>{titles}</tr>{lines}</table>"


@dataclass(frozen=True, slots=True)
class Hosts:
    """What is the same for all ways and numbers of workers.

    Parameters
    ----------
    nbytes : int
        Of the parameters.
    compute : float
        Seconds that a worker computes between two exchanges, on average.
    per_host : int
        Workers of a host.
    bandwidth : float
        Bytes a second of a host's link, in each direction at once.
    jitter : float
        Standard deviation of the seconds of computing, over their mean.
    """

    nbytes: int
    compute: float
    per_host: int
    bandwidth: float
    jitter: float

    def point(self, way: str, workers: int) -> Point:
        """Return one point of a curve."""
        kind, _, option = way.partition(":")
        if kind == "allreduce":
            return self._together(option, workers)
        return self._queued(int(option.removeprefix("shards=") or 0), workers)

    def _queued(self, shards: int, workers: int) -> Point:
        hosts = -(-workers // self.per_host)
        routes = [self.route(host, shards) for host in range(hosts)]
        rounds = max(_LEAST, _PUSHES // workers)
        found = simulate_network(routes, workers, self.compute, jitter=self.jitter, rounds=rounds)
        alone = workers / (self.compute + unloaded(routes[0]))
        busiest = max(found.busy, key=lambda station: found.busy[station])
        share = found.rate / alone
        limit = str(busiest[0]) if share < SATURATED else COMPUTING
        return Point(workers, found.rate, found.exchange, share, limit)

    def route(self, host: int, shards: int) -> list[Visit]:
        """Return the visits of a round of a host's workers; ``shards`` is 0 for the driver alone.

        The bytes of a push leave a worker one shard's after the other's.
        """
        parts, server = max(1, shards), "shard's" if shards else "driver's"
        whole, part = self.nbytes / self.bandwidth, self.nbytes / parts / self.bandwidth
        up, down = (WORKERS_LINKS, host, "up"), (WORKERS_LINKS, host, "down")
        # What others answer comes while the rest is sent.
        earlier = [
            Visit(up, whole, 1 / parts, LATENCY),
            Visit(down, whole - part, 1 - 1 / max(1, parts - 1)),
        ]
        own = Visit(None, parts * WORKER.of(self.nbytes / parts) / 2)
        busy = (SHARD if shards else DRIVER).of(self.nbytes / parts)
        process = (f"{server} process",)
        # To the driver, back, and to the shard: three short messages.
        count = Visit(("driver's process",), COUNT.of(0), 1.0, 2 * LATENCY)
        return [
            own,
            *(earlier if parts > 1 else [Visit(up, whole, 0.0, LATENCY)]),
            Visit((f"{server} link", "in"), part),
            Visit(process, busy / 2 if shards else busy),
            Visit((f"{server} link", "out"), part, 0.0, LATENCY),
            Visit(down, part),
            *([count, Visit(process, busy / 2, 1.0, LATENCY)] if shards else []),
            own,
        ]

    def _together(self, algorithm: str, workers: int) -> Point:
        reducing = self._reduction(algorithm, workers, self.per_host)
        least = self._reduction(algorithm, min(2, workers), 1)
        random = np.random.default_rng(0)
        drawn = [
            random.gamma(self.jitter**-2, self.jitter**2, workers).max() if self.jitter else 1.0
            for _ in range(_ROUNDS)
        ]
        computing = self.compute * fmean(drawn)
        taken = computing + reducing
        # To wait for the slowest worker is no saturation: more workers do more all the same.
        share = (computing + least) / taken
        limit = COMPUTING if share >= SATURATED else "exchange"
        return Point(workers, workers / taken, taken - self.compute, share, limit)

    def _reduction(self, algorithm: str, workers: int, per_host: int) -> float:
        hosts = [number // per_host for number in range(workers)]
        found = costs(workers, self.nbytes, LATENCY, self.bandwidth, hosts)
        # To exchange with all others directly, each opens as many links: no formula has that.
        best = min(taken for name, taken in found.items() if name not in ("star", "direct"))
        taken = found.get(algorithm, found["ring"]) if algorithm else best
        return taken + WORKER.of(self.nbytes) if workers > 1 else 0.0


@with_known_options
def scaling(
    program: Any,
    *,
    batch_seconds: float,
    workers: Sequence[int] = WORKERS,
    ways: Sequence[str] = WAYS,
    per_host: int = 10,
    sync_interval: int = 10,
    bandwidth: float = BANDWIDTH,
    jitter: float = 0.1,
) -> Scaling:
    """Return how many pushes a second more and more workers make, by simulation.

    Every event of the queues at links and processes is simulated; see the modules
    `tos_notebook.theory.scaling` and `tos_notebook.theory.queueing`. What a push takes of a process
    was measured on one machine, with TLS, by `benchmarks/scale/workers.py`. Ten thousand workers
    take a second or two for each way.

    Parameters
    ----------
    program : Program, keras.Model or int
        What `tos_notebook.capture` returns, a compiled Keras model, or the bytes of the
        parameters, from 1.
    batch_seconds : float
        Seconds that a worker computes for a batch, on average, above 0.
    workers : sequence of int
        Numbers of workers, rising, each at least 1.
    ways : sequence of str
        ``ps``, ``ps:shards=4`` with any number of shards, ``allreduce`` for the fastest algorithm
        among workers, or ``allreduce:ring`` and others.
    per_host : int
        Workers of a host, which share its link; at least 1.
    sync_interval : int
        Batches between two exchanges, at least 1.
    bandwidth : float
        Bytes a second of a host's link, in each direction at once; above 0.
    jitter : float
        Standard deviation of the seconds of computing, over their mean; at least 0. They are gamma
        distributed.

    Returns
    -------
    Scaling
        A curve for each way, and where it saturates.

    Raises
    ------
    ConfigError
        A value out of range, an unknown way, or no model.
    CaptureError
        A model that cannot be captured, such as one that is not compiled.

    Examples
    --------
    >>> found = scaling(4_000_000, batch_seconds=0.1, workers=(4, 64), ways=("ps",))
    >>> found["ps"].points[0].limit
    'workers'
    """
    counts = [at_least_one("workers", count) for count in workers]
    if not counts or any(more <= less for less, more in pairwise(counts)):
        raise ConfigError(f"workers: expected rising numbers of workers, got {workers!r}.")
    hosts = Hosts(
        nbytes_of(program),
        positive("batch_seconds", batch_seconds) * at_least_one("sync_interval", sync_interval),
        at_least_one("per_host", per_host),
        positive("bandwidth", bandwidth),
        at_least_zero("jitter", jitter),
    )
    curves = tuple(
        Curve(way, tuple(hosts.point(way, count) for count in counts)) for way in map(_known, ways)
    )
    setting = (
        f"Pushes a second with {hosts.nbytes / 1e6:,.3g} MB of parameters, {hosts.compute:.3g} s "
        f"between two exchanges, {per_host} worker{'s' * (per_host > 1)} on a host, links of "
        f"{bandwidth / 1e6:,.4g} MB/s"
    )
    return Scaling(setting, curves)


def saturation(points: Sequence[tuple[int, float]]) -> float:
    """Return where a curve falls below `SATURATED`; infinite where it does not.

    The rate of all workers together is taken to be the same from there to the next point, as that
    of a server is that never rests.

    Parameters
    ----------
    points : sequence of (int, float)
        Workers, and their rate over what it would be if each were alone.
    """
    before = 1.0
    for n, share in points:
        if share < SATURATED:
            return max(before, n * share / SATURATED)
        before = n
    return math.inf


def _known(way: str) -> str:
    algorithms = "|".join(AMONG_WORKERS)
    if not re.fullmatch(rf"ps(:shards=[1-9]\d*)?|allreduce(:({algorithms}))?", way):
        raise ConfigError(
            "ways: expected 'ps', 'ps:shards=N' with N from 1, 'allreduce' or 'allreduce:' with "
            f"{', '.join(AMONG_WORKERS)}; got {way!r}."
        )
    return way


def _count(workers: float) -> str:
    return f"{workers:,.0f}" if math.isfinite(workers) else "beyond"
