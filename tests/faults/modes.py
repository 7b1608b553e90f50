"""The ways to train in which faults are tried, and what is promised in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tos_notebook.strategies import (
    AllReduce,
    ParameterServer,
    TensorFlowCluster,
    TreeAggregate,
)

EVERY = ("total", "batches", "order")
EXACT = ("total", "batches")
SHARDS = 2


@dataclass(frozen=True)
class Mode:
    """One way to train.

    Parameters
    ----------
    name : str
    options : mapping of str
        Of a session.
    counts : {"apart", "means", "run"}
        What the parameters count: the rows of each worker, or the mean of all workers', or what a
        run counts to which nothing happens.
    bits : tuple of str
        The parameters that have the bits of such a run.
    meshed : bool
        Whether workers make many steps with each other between two reports to the driver.
    continues : bool
        Whether they continue without one that does not come back.
    whole : bool
        Whether an epoch is one step.
    jobs : bool
        Whether each step is a Spark job, whose workers have no connection.
    shards : int
        Slots that shards of the parameters take beside the workers'.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    counts: str = "means"
    bits: tuple[str, ...] = EVERY
    meshed: bool = False
    continues: bool = False
    whole: bool = False
    jobs: bool = False
    shards: int = 0

    @property
    def together(self) -> bool:
        """Whether all workers make each step together."""
        return self.counts != "apart"

    def __str__(self) -> str:
        return self.name


def _apart(sync: str) -> Mode:
    return Mode(sync, {"combiner": "delta", "sync": sync}, counts="apart", bits=())


def _sharded(sync: str) -> Mode:
    options = {"strategy": ParameterServer(shards=SHARDS), "combiner": "delta", "sync": sync}
    return Mode(f"shards:{sync}", options, counts="apart", bits=(), shards=SHARDS)


def _gradients(algorithm: str, on_loss: str) -> Mode:
    strategy = AllReduce(algorithm=algorithm, on_loss=on_loss)
    continues = on_loss == "continue"
    name = f"{'continue' if continues else 'allreduce'}:{algorithm}"
    meshed = algorithm != "star"
    return Mode(name, {"strategy": strategy}, meshed=meshed, continues=continues)


def _parameters(combiner: str, algorithm: str, counts: str) -> Mode:
    strategy = AllReduce(of="parameters", algorithm=algorithm)
    # Each worker's own optimizer keeps what it has learned in a milestone that is lost.
    options = {"strategy": strategy, "combiner": combiner}
    return Mode(combiner, options, counts, EXACT, meshed=True)


def _iterations(name: str, **options: Any) -> Mode:
    strategy = TreeAggregate(convergence_tol=0, **options)
    return Mode(name, {"strategy": strategy}, "run", whole=True, jobs=strategy.jobs)


def _served() -> Mode:
    # Some clusters have nodes that are not this host's.
    strategy = TensorFlowCluster(ps=2, sync=True, insecure_network=True)
    return Mode("tensorflow", {"strategy": strategy})


MODES = {
    mode.name: mode
    for mode in (
        *map(_apart, ("asp", "ssp:3", "bsp")),
        *map(_sharded, ("asp", "bsp")),
        *(_gradients(algorithm, "wait") for algorithm in ("ring", "star", "auto")),
        *(_gradients(algorithm, "continue") for algorithm in ("ring", "star")),
        _parameters("diloco", "ring", "run"),
        _parameters("median", "direct", "means"),
        _served(),
        _iterations("tree"),
        # With one level, the driver adds up in the order of the partitions.
        _iterations("tree:jobs", jobs=True, depth=1),
    )
}
"""By name."""

APART = tuple(name for name, mode in MODES.items() if not mode.together)
"""Those that take any number of partitions, and a worker that is through before the others."""

IN_DRIVER = tuple(name for name, mode in MODES.items() if not mode.shards)
"""Those that take a slot for each worker, and none besides."""

SHARDED = tuple(name for name, mode in MODES.items() if mode.shards)

MESHED = tuple(name for name, mode in MODES.items() if mode.meshed)

CONTINUES = tuple(name for name, mode in MODES.items() if mode.continues)

WAITS = tuple(name for name, mode in MODES.items() if not mode.continues)
