"""What is done to a run in mid-epoch."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tos_notebook as tos
from tests.support.watching import Watch
from tests.unit.worker.support import until
from tos_notebook.events import (
    EpochFinished,
    JobRestarted,
    MilestoneCommitted,
    Stalled,
    StallEnded,
    StrategySwapped,
    WorkerFailed,
    WorkerJoined,
    WorkerLost,
)

from . import counting, moments, processes
from .modes import APART, CONTINUES, IN_DRIVER, MESHED, MODES, SHARDED, WAITS, Mode
from .network import THERE

CLUSTERS = ("local-cluster", "standalone", "yarn")
ALL = ("local", *CLUSTERS, "wire")
CUT = 30.0
LOST_TO_SPARK = 400.0
"""Seconds: Spark gives an executor up after 120 s of silence, and looks once a minute."""
CUT_OFF = tuple(name for name in WAITS if name in IN_DRIVER)
PACE = 0.04
"""Seconds that every worker stands still in each milestone, until the fault has been."""
UNTIL_COPY = 200
"""Milestones of that pace in which the driver copies the parameters of shards again."""
SLOWER = 5
"""Times the pace of workers whose milestone is a Spark job."""

REMOTE = {
    # Blocks are fetched one by one, in random order, from the executor that has them.
    "spark.reducer.maxBlocksInFlightPerAddress": "1",
    "spark.shuffle.readHostLocalDisk": "false",
}

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
}


@dataclass
class Scene:
    """A run in progress, and the cluster under it."""

    cluster: Any
    run: tos.Run
    watch: Watch
    folder: Path
    mode: Mode
    away: list[float] = field(default_factory=list)
    """Seconds from the death of each shard until the run trained again."""

    def process(self, partition: int) -> int:
        """Return the Python worker that trains a partition."""
        return counting.process_of(self.folder, partition)

    def shard(self, number: int) -> int:
        """Return the Python worker that serves a shard."""
        trainer: Any = self.run.parts.training.trainer
        pid: int = trainer.parameters.commits.group.members()[number].pid
        return pid

    def end_shard(self, number: int, *others: int, process: int = 0) -> None:
        """Kill a shard's Python worker, and other processes; wait until all partitions train again.

        Parameters
        ----------
        number : int
            The shard's.
        others : int
            Processes to kill as well.
        process : int
            The one to kill instead of the shard's own.
        """
        pid, mark, began = process or self.shard(number), self.watch.mark(), time.time()
        processes.kill(pid, *others)
        self.returned(mark, began)

    def returned(self, since: int, began: float) -> None:
        """Wait until a shard has been lost, and all partitions train again.

        Parameters
        ----------
        since : int
            A mark of the watch.
        began : float
            When it was lost, in seconds since 1970.
        """
        mark = self.watch.until(JobRestarted, since)
        first = self.watch.until(MilestoneCommitted, mark)
        self.away.append(self.watch.events[first - 1].time - began)
        for partition in (0, 1):
            self.trained(partition, mark)

    def mid_epoch(self, partition: int) -> int:
        """Wait until a partition is in mid-epoch, or in the midst of the run."""
        if not self.mode.whole:
            return self.watch.mid_epoch(partition)
        return self.trained(partition, self.watch.mark())

    def trained(self, partition: int, since: int, count: int = 1, timeout: float = 120.0) -> int:
        """Wait until milestones of a partition count."""
        return self.watch.until(
            MilestoneCommitted, since, lambda e: e.partition == partition, count, timeout
        )

    def back(self, since: int, *partitions: int) -> None:
        """Wait until partitions have been lost, joined again, and trained on."""
        for partition in partitions:
            if self.mode.jobs:
                # Spark runs the task again, and does not tell the run. What was counted just
                # before the fault may be told after it.
                self.trained(partition, since, 3)
                continue
            mark = self.watch.until(WorkerLost, since, lambda e, p=partition: e.partition == p)
            mark = self.watch.until(WorkerJoined, mark, lambda e, p=partition: e.partition == p)
            self.trained(partition, mark)


@dataclass(frozen=True)
class Fault:
    """One kind of fault.

    Parameters
    ----------
    name : str
    inject : callable
        Takes a `Scene` whose run is in mid-epoch; returns when the run goes on.
    on : tuple of str
        Kinds of cluster that can have it.
    sizes : tuple of int
        Rows of each partition.
    epochs : int
    config : mapping of str
        Spark's settings that it needs.
    modes : tuple of str
        The modes to try it in, by name; all by default. See `modes.MODES`.
    prepare : callable, optional
        See `counting.data`.
    shuffled : bool
        Whether the rows come out of a shuffle.
    loses : bool
        Whether a worker is away for longer than the others wait for it.
    patience : float
        Seconds; see `TrainingSession.start`. Workers that may continue wait for longer, unless the
        fault is that one does not come back.
    ends : str
        The moment at which a shard ends itself; see `moments.OF_SHARDS`.
    """

    name: str
    inject: Callable[[Scene], None]
    on: tuple[str, ...] = ("local", *CLUSTERS)
    sizes: tuple[int, ...] = (60, 60)
    epochs: int = 20
    config: Mapping[str, str] = field(default_factory=dict)
    modes: tuple[str, ...] = ()
    prepare: counting.Prepare | None = None
    shuffled: bool = False
    loses: bool = False
    patience: float = 10.0
    ends: str = ""

    def rows(self, sc: Any, sizes: Sequence[int], folder: Path) -> Any:
        """Return the RDD to train on, with partitions of these sizes."""
        if self.shuffled:
            return counting.shuffled(sc, sizes, folder)
        return counting.data(sc, sizes, folder, self.prepare)


def kill_worker(scene: Scene) -> None:
    """Kill the Python worker of partition 1."""
    mark = scene.mid_epoch(1)
    processes.kill(scene.process(1))
    scene.back(mark, 1)


def kill_twenty(scene: Scene) -> None:
    """Kill twenty Python workers, one after the other."""
    for number in range(20):
        mark = scene.mid_epoch(number % 2)
        processes.kill(scene.process(number % 2))
        scene.back(mark, number % 2)


def kill_thrice(scene: Scene) -> None:
    """Kill the Python worker of each partition, and then the executor of partition 1."""
    for partition in (0, 1):
        mark = scene.mid_epoch(partition)
        processes.kill(scene.process(partition))
        scene.back(mark, partition)
    kill_executor(scene)


def kill_executor(scene: Scene) -> None:
    """Kill the JVM of partition 1's executor."""
    mark = scene.mid_epoch(1)
    processes.kill(processes.executor_of(scene.process(1)))
    scene.back(mark, 1)


def kill_twenty_executors(scene: Scene) -> None:
    """Kill twenty executors, one after the other."""
    for number in range(20):
        mark = scene.mid_epoch(number % 2)
        processes.kill(processes.executor_of(scene.process(number % 2)))
        scene.back(mark, number % 2)


def kill_all_but_one(scene: Scene) -> None:
    """Kill every executor but that of partition 0."""
    mark = scene.mid_epoch(1)
    kept = processes.executor_of(scene.process(0))
    found = {processes.executor_of(scene.process(p)) for p in range(1, scene.cluster.slots)}
    processes.kill(*found - {kept})
    scene.back(mark, 1)


def kill_all(scene: Scene) -> None:
    """Kill every executor at once."""
    mark = scene.mid_epoch(1)
    processes.kill(*{processes.executor_of(scene.process(p)) for p in (0, 1)})
    scene.back(mark, 0, 1)


def kill_node(scene: Scene) -> None:
    """Kill the node of partition 1: what started the executor, the executor, its workers."""
    mark = scene.mid_epoch(1)
    scene.cluster.kill_node(processes.executor_of(scene.process(1)))
    if scene.mode.jobs:
        # What is left of the cluster trains all partitions, one after the other.
        scene.run.chaos()
        scene.trained(1, mark, 3, timeout=300)
        return
    mark = scene.watch.until(WorkerLost, mark, lambda e: e.partition == 1)
    scene.run.chaos()
    if scene.mode.together and scene.cluster.kind == "standalone":
        # All need a slot at once, and no other node is there: the user is told what they wait for.
        scene.watch.until(Stalled, mark)
        scene.cluster.heal()
    # If the application master was there, Spark first waits for it, `spark.network.timeout`.
    scene.watch.until(WorkerJoined, mark, lambda e: e.partition == 1, timeout=300)


def freeze(scene: Scene) -> None:
    """Stop the Python worker of partition 1 for three seconds, and let it go on."""
    mark = scene.mid_epoch(1)
    worker = scene.process(1)
    os.kill(worker, signal.SIGSTOP)
    time.sleep(3)
    os.kill(worker, signal.SIGCONT)
    scene.watch.until(MilestoneCommitted, mark, lambda e: e.partition == 1, 5)


def speculate(scene: Scene) -> None:
    """Let Spark start a second attempt at partition 1, which is the slower one."""
    mark = scene.watch.until(
        WorkerLost, 0, lambda e: e.partition == 1 and "later attempt" in e.reason
    )
    scene.watch.until(MilestoneCommitted, mark, lambda e: e.partition == 1)


def fail_first(partition: int, attempt: int, folder: Path) -> None:
    """Raise in the middle of the first attempt at partition 1."""
    if (partition, attempt) == (1, 0):
        raise OSError("the disk was full, for a moment")


def retried(scene: Scene) -> None:
    """Wait until partition 1 has failed and come again."""
    if scene.mode.jobs:
        scene.trained(1, 0)
        return
    mark = scene.watch.until(WorkerFailed, 0, lambda e: e.partition == 1)
    scene.watch.until(WorkerJoined, mark, lambda e: e.partition == 1)


def kill_with_surplus(scene: Scene) -> None:
    """Kill a Python worker while other partitions wait for a slot."""
    mark = scene.watch.until(MilestoneCommitted, count=10)
    partition = scene.watch.of(MilestoneCommitted)[-1].partition
    with suppress(ProcessLookupError):
        os.kill(scene.process(partition), signal.SIGKILL)
    scene.watch.until(WorkerLost, mark)
    scene.watch.until(WorkerJoined, mark)


def cut_wire(scene: Scene) -> None:
    """Cut the network of a node for `CUT` seconds, and heal it."""
    partition = _behind_the_wire(scene)
    mark = scene.mid_epoch(partition)
    scene.cluster.wire.cut()
    time.sleep(CUT)
    scene.cluster.wire.connect()
    mark = scene.watch.until(Stalled, mark, lambda e: f"partition {partition} " in e.message)
    # What was committed before the cut may be told after it.
    mark = scene.watch.until(StallEnded, mark)
    scene.watch.until(MilestoneCommitted, mark, lambda e: e.partition == partition, 5)


def cut_for_good(scene: Scene) -> None:
    """Cut the network of a node, which never comes back while the run lasts."""
    partition = _behind_the_wire(scene)
    mark = scene.mid_epoch(partition)
    scene.cluster.wire.cut()
    # First the server gives the worker up, then Spark its executor.
    mark = scene.watch.until(WorkerLost, mark, lambda e: e.partition == partition)
    mark = scene.watch.until(
        WorkerJoined, mark, lambda e: e.partition == partition, timeout=LOST_TO_SPARK
    )
    scene.watch.until(MilestoneCommitted, mark, lambda e: e.partition == partition)


def die(scene: Scene) -> None:
    """Wait until partition 1 has ended its own worker at a moment of a step, and is back."""
    until((scene.folder / moments.FIRED).exists, 120.0)
    scene.back(0, 1)


def lose_node(scene: Scene) -> None:
    """Kill the node of partition 1, let the others continue, and bring another node."""
    mark = scene.mid_epoch(1)
    scene.cluster.kill_node(processes.executor_of(scene.process(1)))
    mark = scene.watch.until(WorkerLost, mark, lambda e: e.partition == 1)
    # Of the epoch of the loss, and of one that begins without the partition.
    mark = scene.watch.until(EpochFinished, mark, count=2)
    scene.run.pause()
    scene.cluster.heal()
    mark = scene.watch.until(WorkerJoined, mark, lambda e: e.partition == 1)
    scene.run.unpause()
    scene.trained(1, mark)


def kill_shard(scene: Scene) -> None:
    """Kill the Python worker of the second shard."""
    scene.mid_epoch(1)
    scene.end_shard(1)


def kill_five_shards(scene: Scene) -> None:
    """Kill five Python workers of shards, one after the other, and each after another copy."""
    for number in range(5):
        scene.mid_epoch(number % 2)
        scene.end_shard(number % 2)
        scene.trained(0, scene.watch.mark(), UNTIL_COPY)


def kill_executor_of_shard(scene: Scene) -> None:
    """Kill the JVM of the second shard's executor."""
    scene.mid_epoch(1)
    scene.end_shard(1, process=processes.executor_of(scene.shard(1)))


def kill_shard_and_worker(scene: Scene) -> None:
    """Kill the Python workers of a shard and of partition 1 at once."""
    scene.mid_epoch(1)
    scene.end_shard(0, scene.process(1))


def lose_shard(scene: Scene) -> None:
    """Wait until a shard has ended itself at a moment of a step, and all train again."""
    fired = scene.folder / moments.FIRED
    until(fired.exists, 120.0)
    scene.returned(0, fired.stat().st_mtime)


def take_detour(scene: Scene) -> None:
    """Wait until the run goes through the driver."""
    mark = scene.watch.until(StrategySwapped)
    for partition in (0, 1):
        scene.trained(partition, mark)
    if not any("through the driver" in note for note in scene.run.status.notes):
        raise AssertionError(f"no note of the detour: {scene.run.status.notes}")


def part(scene: Scene) -> None:
    """Kill a worker whose next attempt reaches no other one, and one that trains after that."""
    mark = scene.mid_epoch(1)
    (scene.folder / moments.CUT).touch()
    processes.kill(scene.process(1))
    take_detour(scene)
    mark = scene.watch.mark()
    processes.kill(scene.process(0))
    scene.back(mark, 0)


def _behind_the_wire(scene: Scene) -> int:
    """Return the partition that is trained on the node whose network can be cut."""
    joined = {e.partition: e.host for e in scene.watch.of(WorkerJoined)}
    return next(p for p, host in joined.items() if host == THERE)


def _with(moment: str) -> tuple[str, ...]:
    """Return the modes whose steps have a moment."""
    if moment in ("reducing", "gathering"):
        return MESHED
    if moment in ("left", "counted"):
        return SHARDED
    together = (name for name, mode in MODES.items() if mode.together)
    served = tuple(name for name in together if moment != "reported" or not MODES[name].jobs)
    return served if moment == "reported" else (*served, *SHARDED)


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("worker", kill_worker),
        Fault("20 workers", kill_twenty, epochs=80),
        Fault("shuffled", kill_thrice, CLUSTERS, (240, 240), 6, REMOTE, shuffled=True),
        Fault("surplus", kill_with_surplus, sizes=(30,) * 6, epochs=3, modes=APART),
        Fault("freeze", freeze),
        Fault("flaky data", retried, prepare=fail_first),
        Fault("executor", kill_executor, CLUSTERS),
        Fault("all but one", kill_all_but_one, CLUSTERS),
        Fault("all executors", kill_all, CLUSTERS),
        Fault("20 executors", kill_twenty_executors, CLUSTERS, epochs=400, modes=("asp",)),
        Fault("node", kill_node, ("standalone", "yarn"), modes=WAITS),
        Fault(
            "lost node",
            lose_node,
            ("standalone",),
            epochs=160,
            modes=CONTINUES,
            loses=True,
            patience=2.0,
        ),
        *(
            Fault(moment, die, modes=_with(moment), prepare=moments.Dies(moment))
            for moment in moments.PLACES
        ),
        Fault("shard", kill_shard, modes=SHARDED),
        Fault("5 shards", kill_five_shards, epochs=80, modes=SHARDED),
        Fault("shard, worker", kill_shard_and_worker, modes=SHARDED),
        Fault("shard's host", kill_executor_of_shard, CLUSTERS, modes=SHARDED),
        *(
            Fault(f"shard {moment}", lose_shard, modes=SHARDED, epochs=40, ends=moment)
            for moment in moments.OF_SHARDS
        ),
        Fault(
            "apart",
            take_detour,
            modes=("allreduce:auto",),
            prepare=moments.never_reachable,
        ),
        Fault("parted", part, modes=("allreduce:auto",), epochs=80, prepare=moments.unreachable),
        Fault("cut for 30 s", cut_wire, ("wire",), epochs=80, modes=IN_DRIVER),
        Fault("cut for good", cut_for_good, ("wire",), epochs=80, modes=CUT_OFF),
        # Spark never runs a copy on the host of the first attempt: the others have one host.
        Fault("speculation", speculate, ("standalone",), (6, 100), 20, SPECULATION, APART),
    )
}
