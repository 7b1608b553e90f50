"""Which other setting would train more rows a second, by what workers do with their time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from ..reduction.costs import GAMMA, costs
from .exchanges import LATENCY
from .queues import Station, links, throughput

GIVE = 1.2
"""An advice is given where it trains so many times as many rows."""

KEEP = 1.1
"""It is withdrawn below this, and not at `GIVE`: else it would come and go with every look."""

BISECTIONS = 30
"""By which the time of a push through a link is found."""


class WorkerTimes(NamedTuple):
    """One worker, between two of its exchanges."""

    rows: float
    """What it trains."""
    busy: float
    """Seconds in which it trains."""
    exchange: float
    """Seconds in which it exchanges."""
    wait: float
    """Seconds in which it waits for others."""


@dataclass(frozen=True, slots=True)
class Change:
    """A setting or strategy that may be better."""

    to: str
    """As a user writes it, such as ``sync_interval=20``."""
    gain: float
    """By how many times as many rows are trained in a second."""
    cause: str
    """What takes the time now."""

    def __str__(self) -> str:
        return (
            f"{self.cause} With {self.to} the same workers would train about {self.gain:.1f} "
            "times as many rows a second."
        )


def seldom(workers: Sequence[WorkerTimes], sync_interval: int) -> Change:
    """Return what it would bring to exchange half as often.

    A worker then trains twice the rows between two exchanges, and waits twice as long for others
    that do.
    """
    later = [WorkerTimes(2 * w.rows, 2 * w.busy, w.exchange, 2 * w.wait) for w in workers]
    gain = _rate(later) / _rate(workers)
    return Change(f"sync_interval={2 * sync_interval}", gain, _exchange(workers))


def without_waiting(workers: Sequence[WorkerTimes], to: str) -> Change:
    """Return what it would bring if no worker waited for others."""
    gain = _rate([w._replace(wait=0.0) for w in workers]) / _rate(workers)
    share = _share(workers, "wait")
    return Change(to, gain, f"Waiting for other workers takes {100 * share:.0f} % of each step.")


def averaging(workers: Sequence[WorkerTimes], to: str, every: int) -> Change:
    """Return what it would bring to average parameters, and not the gradients of each batch.

    Parameters
    ----------
    workers : sequence of WorkerTimes
    to : str
        As a user writes it.
    every : int
        Batches between two averages.
    """
    later = [w._replace(exchange=w.exchange / every) for w in workers]
    return Change(to, _rate(later) / _rate(workers), _exchange(workers))


def among_workers(
    workers: Sequence[WorkerTimes], to: str, algorithm: str, nbytes: int, hosts: Sequence[int]
) -> Change:
    """Return what an algorithm among workers would bring instead of a star through the driver.

    The bandwidth is that by which the star takes as long as was measured.

    Parameters
    ----------
    workers : sequence of WorkerTimes
    to : str
        As a user writes it.
    algorithm : {"ring", "direct", "halving", "two_level"}
    nbytes : int
        Of the parameters.
    hosts : sequence of int
        How many workers each host has.
    """
    n, measured = sum(hosts), fmean(w.exchange for w in workers) or LATENCY
    # All vectors pass the driver's link one after the other.
    beta = max(0.0, measured - 2 * LATENCY - n * nbytes * GAMMA) / (2 * n * nbytes)
    then = _reduction(algorithm, nbytes, hosts, beta)
    later = [w._replace(exchange=w.exchange * min(1.0, then / measured)) for w in workers]
    return Change(to, _rate(later) / _rate(workers), _exchange(workers))


def in_shards(workers: Sequence[WorkerTimes], now: int) -> tuple[int, Change]:
    """Return how many shards of the parameters workers need that do not wait for each other.

    Each shard and each worker has its own link, and all links are alike. The time that a push
    takes through one is that by which workers exchange as long as was measured; see
    `tos_notebook.theory.queues`. There are as many shards as the workers would need to be half of
    those that saturate them, and no more than workers.

    Parameters
    ----------
    workers : sequence of WorkerTimes
    now : int
        Shards that there are; 0 for the driver alone.

    Returns
    -------
    int
        Shards.
    Change
        What they would bring; its `to` has no further options.
    """
    n, training = len(workers), fmean(w.busy + w.wait for w in workers)
    rate = n / (training + fmean(w.exchange for w in workers))
    servers = max(1, now)

    def pushes(link: float, count: int) -> float:
        return throughput(n, [Station(training, math.inf), *links(link, count)])

    unit = sum(station.seconds for station in links(1.0, servers))
    low, high = 0.0, fmean(w.exchange for w in workers) / unit
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if pushes(middle, servers) > rate else (low, middle)
    wanted = min(n, math.ceil(2 * n * high / (training + 2 * high))) if high else 1
    whose = "The links of the shards are" if now else "The driver's link is"
    full = min(1.0, rate * high / servers)
    cause = f"{_exchange(workers)} {whose} busy for {100 * full:.0f} % of the time."
    gain = pushes(high, wanted) / rate if wanted > servers else 1.0
    return wanted, Change(f"strategy='ps:shards={wanted}'", gain, cause)


def together(
    workers: Sequence[WorkerTimes],
    to: str,
    algorithm: str,
    nbytes: int,
    hosts: Sequence[int],
    servers: int = 1,
    sent: int | None = None,
) -> Change:
    """Return what an algorithm among workers would bring instead of a parameter server.

    All wait for the slowest then. The bandwidth is that by which workers that do not wait for
    each other exchange as long as was measured; see `tos_notebook.theory.exchanges`. Parameters
    are those of `among_workers`, and how many shards the parameter server has, or 1. `sent` are the
    bytes that a worker exchanges with it, where those are not all.
    """
    sent = nbytes if sent is None else sent
    n, measured = sum(hosts), fmean(w.exchange for w in workers)
    busy = fmean(w.busy for w in workers)
    alone = (measured - 2 * LATENCY - sent * GAMMA) / (2 * sent)
    saturated = servers * (busy + measured) / (n * sent)
    then = _reduction(algorithm, nbytes, hosts, max(0.0, min(alone, saturated)))
    slowest = max(w.busy for w in workers)
    later = [w._replace(exchange=then, wait=max(w.wait, slowest - w.busy)) for w in workers]
    return Change(to, _rate(later) / _rate(workers), _exchange(workers))


def most_gain(workers: Sequence[WorkerTimes], at_once: float, cores: int) -> float:
    """Return by how many times as many rows the workers of one machine can train at most.

    No more of them compute at a time than it has cores: what one no longer waits, others do.

    Parameters
    ----------
    workers : sequence of WorkerTimes
    at_once : float
        How many train at once.
    cores : int
        Of the machine.
    """
    computing = at_once * fmean(worker.busy / _seconds(worker) for worker in workers)
    return max(1.0, cores / computing)


def _reduction(algorithm: str, nbytes: int, hosts: Sequence[int], beta: float) -> float:
    """Return the seconds of a reduction, where a byte takes `beta` seconds."""
    places = [host for host, count in enumerate(hosts) for _ in range(count)]
    found = costs(len(places), nbytes, LATENCY, 1 / beta if beta else math.inf, places)
    return found.get(algorithm, found["ring"])


def _exchange(workers: Sequence[WorkerTimes]) -> str:
    return f"Exchange takes {100 * _share(workers, 'exchange'):.0f} % of each step."


def _seconds(worker: WorkerTimes) -> float:
    return worker.busy + worker.exchange + worker.wait


def _rate(workers: Iterable[WorkerTimes]) -> float:
    return sum(worker.rows / _seconds(worker) for worker in workers)


def _share(workers: Sequence[WorkerTimes], name: str) -> float:
    return float(sum(getattr(w, name) for w in workers) / sum(map(_seconds, workers)))


class Advisor:
    """Keeps an advice for as long as it holds, with the words in which it was given."""

    def __init__(self) -> None:
        self._given: Change | None = None
        self._situation: object = None

    def advise(self, situation: object, changes: Sequence[Change] | None) -> Change | None:
        """Return the change that brings most, or the one that was returned before.

        Parameters
        ----------
        situation : object
            The settings in force: what is not equal ends the advice.
        changes : sequence of Change or None
            All that may be advised now; None while too little is known.

        Returns
        -------
        Change or None
            None where none brings enough.
        """
        if situation != self._situation:
            self._given, self._situation = None, situation
        if changes is None:
            return self._given
        held = self._given is not None and any(
            change.to == self._given.to and change.gain >= KEEP for change in changes
        )
        if not held:
            best = max(changes, key=lambda change: change.gain, default=None)
            self._given = best if best is not None and best.gain >= GIVE else None
        return self._given
