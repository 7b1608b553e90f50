"""One function on each executor, each with a TensorFlow of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..cluster.connect import running_context
from ..cluster.executors import is_local, slots
from ..cluster.files import default_fs
from ..cluster.jobs import spoken
from ..common.checks import at_least_one, with_known_options
from ..errors import ConfigError
from ..nodes.sendable import check_main, check_sendable
from . import util

if TYPE_CHECKING:
    from pyspark import SparkContext

STARTING = 30.0
"""Seconds from Spark's start in which executors may still come."""

_PAUSE = 0.25


@dataclass
class ParallelContext:
    """What a function that runs in parallel knows of itself.

    Parameters
    ----------
    worker_num : int
        From 0.
    num_workers : int
    defaultFS : str
        Spark's default file system, such as ``hdfs://host:8020`` or ``file://``.

    Attributes
    ----------
    executor_id : int
        Also its number.
    """

    worker_num: int
    num_workers: int
    defaultFS: str
    job_name: str = ""
    task_index: int = 0
    cluster_spec: dict[str, list[str]] = field(default_factory=dict)
    working_dir: str = "."
    mgr: Any = None
    tmp_socket: Any = None

    @property
    def executor_id(self) -> int:
        """Its number."""
        return self.worker_num

    def absolute_path(self, path: str) -> str:
        """Return a path with its file system; see `TFNode.hdfs_path`."""
        from . import TFNode

        return str(TFNode.hdfs_path(self, path))


@with_known_options
def run(
    sc: SparkContext,
    map_fn: Callable[[Any, Any], object],
    tf_args: Any,
    num_executors: int,
    use_barrier: bool = True,
) -> None:
    """Call a function as so many tasks, independent of each other, and wait for their ends.

    Parameters
    ----------
    sc : SparkContext
    map_fn : callable
        Takes `tf_args` and a context with `worker_num`, `num_workers` and `defaultFS`. What it
        returns is dropped.
    tf_args : object
        Arguments; `num_gpus` among them says how many GPUs each is to see, 1 by default.
    num_executors : int
    use_barrier : bool
        Whether all of them start at once, and fail together. Without it those beyond Spark's slots
        start when others have ended, and Spark tries one that fails again.

    Raises
    ------
    ConfigError
        They are to start at once, and Spark has too few slots.
    WorkerError
        The function raised on an executor.
    """
    at_least_one("num_executors", num_executors)
    check_main("map_fn", map_fn)
    check_sendable(map_fn, tf_args, "map_fn")
    sc = running_context(sc)
    if use_barrier:
        _check_slots(sc, num_executors)
    task = _Task(map_fn, tf_args, num_executors, default_fs(sc), use_barrier)
    numbers = sc.parallelize(range(num_executors), num_executors)
    with spoken():
        (numbers.barrier() if use_barrier else numbers).mapPartitions(task).collect()


def _check_slots(sc: SparkContext, wanted: int) -> None:
    """Refuse more tasks than there are slots, for which Spark would wait ten minutes."""
    started = sc.startTime / 1000
    while (found := slots(sc)) < wanted:
        if is_local(sc) or time.time() > started + STARTING:
            raise ConfigError(
                f"num_executors: expected at most {found}, the task slots that Spark has, since "
                f"all start at once; got {wanted}. Give Spark more executors, or set "
                "use_barrier=False: those beyond start when others have ended."
            )
        time.sleep(_PAUSE)


@dataclass(frozen=True)
class _Task:
    map_fn: Callable[[Any, Any], object]
    tf_args: Any
    num_workers: int
    default_fs: str
    barrier: bool

    def __call__(self, numbers: Iterable[int]) -> Iterator[int]:
        (number,) = numbers
        nodes = _addresses() if self.barrier else []
        util.single_node_env(util.requested_gpus(self.tf_args), number, nodes)
        self.map_fn(self.tf_args, ParallelContext(number, self.num_workers, self.default_fs))
        yield number


def _addresses() -> list[str]:
    from pyspark import BarrierTaskContext

    return [info.address for info in BarrierTaskContext.get().getTaskInfos()]
