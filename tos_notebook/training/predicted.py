"""What theory predicts of a run, beside what was measured; see `tos_notebook.Run.theory`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from ..reduction.costs import DELTA
from ..strategies.base import Strategy
from ..strategies.ps.strategy import ParameterServer
from ..telemetry.pace import Paces
from ..theory import BANDWIDTH, LATENCY, Gauge, gauges
from ..theory.exchanges import SHARDS, Cluster, Cost
from .parts import RunParts
from .sent import sent_bytes
from .shared_cores import shared_cores

if TYPE_CHECKING:
    import pandas as pd

SHARDS_TRIED = (2, 4)
"""How many shards of the parameters are compared with what a run has."""

LOCAL_LATENCY = 3e-5
"""Seconds that a message takes between two processes of one host."""


def theory(parts: RunParts, strategy: Strategy) -> pd.DataFrame:
    """Return predictions beside measurements.

    Parameters
    ----------
    parts : RunParts
    strategy : Strategy
        That which trains the run now.

    Returns
    -------
    pandas.DataFrame
        One row for each, by name. Columns: predicted, measured, meaning. The rows of staleness are
        left out where all workers make each step together. The last rows are what the other
        strategies would train a second, by the same batches on the same workers.
    """
    import pandas as pd

    settings = parts.training.settings
    stale = not settings.strategy.lockstep and "graph" not in strategy.needs
    found = _of_staleness(parts) if stale else []
    found += _of_exchanges(parts, strategy, parts.history.paces())
    return pd.DataFrame(map(asdict, found)).set_index("name")


def _of_staleness(parts: RunParts) -> list[Gauge]:
    totals, rate = parts.history.totals(), parts.training.settings.learning_rate
    return [*gauges(totals.recent_workers, totals.recent_staleness, rate)]


def _of_exchanges(parts: RunParts, strategy: Strategy, paces: Paces) -> Iterator[Gauge]:
    """Yield the parts of a step, the load of the links, and how fast all train."""
    name, network = _name(parts, strategy), _network(paces)
    steps = _steps(name, paces)
    cluster, every = _cluster(parts, strategy, paces, steps), _interval(parts, name, steps)
    served = None if cluster is None else replace(cluster, nbytes=sent_bytes(parts, paces))
    way = None if served is None else served.way(name, every)
    times = ("compute", "exchange", "wait")
    meanings = (
        "milliseconds of a batch in TensorFlow; predictions take it as measured",
        f"milliseconds of a batch for which parameters are sent: over {network}",
        "milliseconds of a batch in which a worker waits for the slowest, or the driver's link",
    )
    for part, meaning in zip(times, meanings, strict=True):
        predicted = math.nan if way is None else 1e3 * getattr(way, part)
        yield Gauge(f"{part} (ms)", predicted, 1e3 * _of_a_batch(paces, part, steps), meaning)
    yield from _of_links(strategy, paces, name, way)
    server = _server(strategy)
    rates = [w.samples / w.interval for w in paces.workers if w.interval]
    most = _most_at_once(parts, paces)
    yield Gauge(
        "rows a second",
        math.nan if way is None else _rows(way, cluster, most),
        fmean(rates) * paces.at_once if rates else math.nan,
        f"of all workers together, by {name}, {_often(every)}",
    )
    yield Gauge(
        "saturating workers",
        math.nan if way is None else way.saturated_at,
        math.nan,
        f"from so many on the {server} is the limit: over {network}",
    )
    # A batch of tree aggregation is a whole sample, which others do not have.
    if cluster is not None and served is not None and name != "treeaggregate":
        ways = _ways(cluster, served, every, SHARDS_TRIED if paces.remote else ())
        yield from _others(ways, cluster, name, every, most)


def _server(strategy: Strategy) -> str:
    """Return who has the parameters."""
    return "shard" if strategy.tasks else "driver"


def _of_links(strategy: Strategy, paces: Paces, name: str, way: Cost | None) -> Iterator[Gauge]:
    """Yield what the links of the server and of a worker carry."""
    busier = [max(w.bytes_up, w.bytes_down) / w.interval for w in paces.workers if w.interval]
    link = fmean(busier) / 1e6 if busier else math.nan
    among = name.startswith("allreduce:") and name != "allreduce:star"
    server = _server(strategy)
    yield Gauge(
        f"{server}'s link (MB/s)",
        math.nan if way is None else way.driver / 1e6,
        math.nan if among else link * paces.at_once / max(1, strategy.tasks),
        f"what the {server}'s link carries in its busier direction; predicted without a codec"
        + ", and without the copies that it gets of what workers exchange" * among,
    )
    partner = "other workers" if among else server
    yield Gauge(
        "worker's link (MB/s)",
        math.nan if way is None else way.worker / 1e6,
        link,
        f"the same of each worker; measured is its exchange with the {partner}"
        + ", of which those that share memory send signals alone" * among,
    )


def _ways(cluster: Cluster, served: Cluster, every: int, shards: Sequence[int]) -> Sequence[Cost]:
    """Return what each way costs; `served` has the bytes of parameter servers."""
    seldom = every if every > 1 else ParameterServer.sync_interval
    both = zip(served.ways(seldom, shards), cluster.ways(seldom, shards), strict=True)
    # Only parameter servers exchange by row.
    return [by_row if by_row.name.startswith("ps") else whole for by_row, whole in both]


def _others(
    ways: Sequence[Cost], cluster: Cluster, name: str, every: int, most: float
) -> Iterator[Gauge]:
    """Yield how fast all would train by each of the other ways, batches being what they are."""
    for way in ways:
        present = (way.name, way.sync_interval) == (name, every)
        if not present and way.name != "treeaggregate":
            meaning = f"of all workers together, if they exchanged {_often(way.sync_interval)}"
            rows = _rows(way, cluster, most)
            yield Gauge(f"rows a second by {way.name}", rows, math.nan, meaning)


def _rows(way: Cost, cluster: Cluster | None, most: float) -> float:
    """Return the rows a second of a way by which at most so many workers compute at a time."""
    computing = 0.0 if cluster is None else cluster.n * way.compute / way.step
    return way.rows_per_second * (most / computing if computing > most else 1.0)


def _most_at_once(parts: RunParts, paces: Paces) -> float:
    """Return how many workers compute at a time, at most; more than cores only if they do so now.

    Their times are measured where they share the cores of one machine, and would be longer if more
    of them computed at a time.
    """
    cores = shared_cores(parts, paces)
    if cores is None:
        return math.inf
    shares = [w.compute / w.interval for w in paces.workers if w.interval]
    return max(float(cores), paces.at_once * fmean(shares) if shares else 0.0)


def _often(every: int) -> str:
    return "after each batch" if every == 1 else f"after each {every} batches"


def _cluster(parts: RunParts, strategy: Strategy, paces: Paces, every: float) -> Cluster | None:
    """Return the workers and links that predictions are for.

    None before the first milestones, and where each epoch is a Spark job: no formula says how long
    Spark takes for one. None, too, where TensorFlow moves the variables itself.
    """
    if parts.training.settings.strategy.tree_depth is not None or "graph" in strategy.needs:
        return None
    seconds = [w.compute / every for w in paces.workers if w.compute > 0]
    if not seconds:
        return None
    slowest = max(seconds)
    # One is slow and all others are alike, so that mean and maximum are those that were measured.
    others = (sum(seconds) - slowest) / (len(seconds) - 1) if len(seconds) > 1 else slowest
    count = max(1, round(paces.at_once))
    if count == 1:
        # One after the other, each takes its own time.
        slowest = others = fmean(seconds)
    return Cluster(
        parts.program.layout.nbytes,
        paces.hosts if paces.remote and sum(paces.hosts) == count else count,
        others,
        max(1, round(_mean(paces, "samples") / every)),
        LOCAL_LATENCY if paces.local else LATENCY,
        1 / DELTA if paces.local else BANDWIDTH,
        max(1.0, slowest / others),
    )


def _steps(name: str, paces: Paces) -> float:
    """Return how many steps of a worker are in a milestone."""
    # A worker whose rows are used up reports milestones without a batch.
    return 1.0 if name == "treeaggregate" else max(1.0, _mean(paces, "steps"))


def _interval(parts: RunParts, name: str, steps: float) -> int:
    """Return how many steps of a worker are between two exchanges."""
    settings = parts.training.settings
    if settings.strategy.lockstep and name != "treeaggregate":
        # A milestone may be of several exchanges.
        return settings.sync_interval
    return max(1, round(steps))


def _name(parts: RunParts, strategy: Strategy) -> str:
    """Return the way of training that a run is, as `Cluster.way` names it."""
    settings, name = parts.training.settings, strategy.name
    if "graph" in strategy.needs:
        return name
    if not settings.strategy.lockstep:
        if settings.sync.barrier:
            return "ps bsp"
        return f"{SHARDS}{strategy.tasks}" if strategy.tasks else "ps asp"
    if name == "treeaggregate":
        return name
    algorithm = getattr(strategy, "algorithm", "star")
    if algorithm == "auto" and settings.strategy.pushes != "gradients":
        return f"allreduce:parameters/{settings.sync_interval}"
    return f"allreduce:{parts.training.algorithm or algorithm}"


def _network(paces: Paces) -> str:
    if paces.local:
        return f"one host, whose memory copies {1 / DELTA / 1e9:g} GB/s"
    return f"links of {BANDWIDTH / 1e9:g} GB/s, with {1e3 * LATENCY:g} ms a message"


def _of_a_batch(paces: Paces, name: str, steps: float) -> float:
    """Return the mean over batches: who trains more of them counts more."""
    rates = [1 / w.interval if w.interval else 0.0 for w in paces.workers]
    if not sum(rates):
        return _mean(paces, name) / steps
    times = [getattr(w, name) for w in paces.workers]
    return float(np.average(times, weights=rates)) / steps


def _mean(paces: Paces, name: str) -> float:
    return fmean([getattr(w, name) for w in paces.workers]) if paces.workers else math.nan
