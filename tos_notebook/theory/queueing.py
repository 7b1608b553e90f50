"""A closed network of queues, simulated event by event: workers compute, then wait in line.

Each worker computes, which takes a random time, and then visits stations, such as a link or a
process, in the order of its route. A station serves one at a time, first come, first served. Then
the worker computes again. Lazowska, Zahorjan, Graham and Sevcik 1984, "Quantitative System
Performance", has the bounds and the exact solutions of such networks: n workers that compute for Z
seconds, and spend R seconds at stations of which the busiest takes D seconds, do no more than
min(n / (Z + R), 1 / D) rounds a second.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.checks import at_least_one, at_least_zero, not_negative
from ..errors import ConfigError

Station = tuple[str | int, ...]
"""The name of one, with more to tell it from others of its kind."""

_DRAWN = 4096
"""Random numbers at a time."""


class Visit(NamedTuple):
    """One stop of a round."""

    station: Station | None
    """Where; None for what takes time, and keeps no other worker waiting."""
    seconds: float
    """Of service, on average."""
    onward: float = 1.0
    """The share of the service after which the next visit begins: 0 where bytes are sent on as they
    come, 1 where all have to be there."""
    after: float = 0.0
    """Seconds until then, in addition."""


class Observed(NamedTuple):
    """What a simulation has shown, once every worker has made a round."""

    rate: float
    """Rounds a second, of all workers together."""
    exchange: float
    """Mean seconds of a round that a worker does not compute."""
    busy: dict[Station, float]
    """The share of the time in which each station serves."""


def unloaded(route: Sequence[Visit]) -> float:
    """Return the seconds that a route takes without other workers."""
    *some, last = route
    return sum(v.seconds * v.onward + v.after for v in some) + last.seconds + last.after


def simulate_network(
    routes: Sequence[Sequence[Visit]],
    workers: int,
    compute: float,
    *,
    jitter: float = 0.1,
    service_jitter: float = 0.0,
    rounds: int = 3,
    seed: int = 0,
) -> Observed:
    """Simulate workers that compute, and then visit stations.

    Random times are gamma distributed: a jitter of 0 makes them constant, one of 1 exponential.

    Parameters
    ----------
    routes : sequence of sequence of Visit
        Worker k takes the route k modulo how many there are.
    workers : int
        At least 1.
    compute : float
        Seconds of each round that a worker computes, on average; at least 0.
    jitter, service_jitter : float
        Standard deviation of the times of computing, and of services, over their mean; at least 0.
    rounds : int
        That are observed, for each worker, after a first one; at least 1.
    seed : int
        At least 0.

    Raises
    ------
    ConfigError
        A value out of range.
    """
    n, count = at_least_one("workers", workers), at_least_one("rounds", rounds)
    if not routes or not all(routes):
        raise ConfigError("routes: expected at least one, each with at least one visit.")
    compute, jitter = at_least_zero("compute", compute), at_least_zero("jitter", jitter)
    random = np.random.default_rng(not_negative("seed", seed))
    services = _times(random, at_least_zero("service_jitter", service_jitter))
    starts = compute * _left_of_times(random, jitter, n)
    network = _Network(routes, starts.tolist(), services if service_jitter else None)
    return network.run(compute, _times(random, jitter), n, count)


class _Network:
    """Stations, and workers on their way; `starts` says when each comes to its first station."""

    def __init__(
        self,
        routes: Sequence[Sequence[Visit]],
        starts: list[float],
        services: Iterator[float] | None,
    ) -> None:
        self._names = list(dict.fromkeys(v.station for route in routes for v in route))
        numbers = {name: number for number, name in enumerate(self._names)}
        self._routes = [
            [(numbers[v.station], v.station is not None, *v[1:]) for v in route] for route in routes
        ]
        self._free = [0.0] * len(self._names)
        self._busy = [0.0] * len(self._names)
        self._starts, self._services = starts, services

    def run(self, compute: float, pauses: Iterator[float], n: int, count: int) -> Observed:
        """Simulate until the workers have made `count` rounds each, on average, after a first."""
        routes, starts, free, busy = self._routes, self._starts, self._free, self._busy
        line = [(time, worker, 0) for worker, time in enumerate(starts)]
        heapq.heapify(line)
        now, worker, at = heapq.heappop(line)
        done, began, exchanged, before = 0, 0.0, 0.0, list(busy)
        while True:
            route = routes[worker % len(routes)]
            station, queues, service, onward, after = route[at]
            if self._services is not None:
                service *= next(self._services)
            start = max(now, free[station]) if queues else now
            free[station] = start + service
            busy[station] += service
            at += 1
            if at < len(route):
                due = start + onward * service + after
            else:
                end = start + service + after
                exchanged += end - starts[worker] if done >= n else 0.0
                done += 1
                if done == n:
                    began, before = end, list(busy)
                elif done == (count + 1) * n:
                    break
                due = starts[worker] = end + compute * next(pauses)
                at = 0
            now, worker, at = heapq.heappushpop(line, (due, worker, at))
        seconds = max(end - began, math.ulp(1.0))
        shares = {
            name: (after - before) / seconds
            for name, before, after in zip(self._names, before, busy, strict=True)
            if name is not None
        }
        return Observed(count * n / seconds, exchanged / (count * n), shares)


def _times(random: np.random.Generator, jitter: float) -> Iterator[float]:
    """Yield random times of mean 1 and this standard deviation."""
    while True:
        drawn: npt.NDArray[np.float64] = (
            random.gamma(jitter**-2, jitter**2, _DRAWN) if jitter else np.ones(_DRAWN)
        )
        yield from drawn.tolist()


def _left_of_times(
    random: np.random.Generator, jitter: float, count: int
) -> npt.NDArray[np.float64]:
    """Return what is left of such times for one who comes at any moment.

    Long times are met more often: a gamma distribution weighted by its value is one with a shape
    that is larger by 1.
    """
    met = random.gamma(jitter**-2 + 1, jitter**2, count) if jitter else np.ones(count)
    return met * random.random(count)
