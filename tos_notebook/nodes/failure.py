"""What has failed in a node, as an error of the driver's."""

from __future__ import annotations

import linecache
import re
from typing import TYPE_CHECKING

from ..cluster.executors import executor_of_ended
from ..cluster.jvm_backend import DRIVER
from ..errors import WorkerError
from ..readable import with_cells
from .roster import Node

if TYPE_CHECKING:
    from pyspark import SparkContext

_FRAME = re.compile(r'File "(.+)", line (\d+), in .+$')


def node_error(sc: SparkContext, node: Node) -> WorkerError:
    """Return what has failed in a node, the user's own line first."""
    meta, host = node.meta, str(node.meta.get("host", "?"))
    task, executor = meta.get("spark_task"), DRIVER
    if task is not None:
        stage, attempt = map(int, task)
        executor, host = executor_of_ended(sc, stage, attempt, host)
    return WorkerError(
        f"{node.message} (in node {node.name})",
        executor=executor,
        host=host,
        partition=int(meta["executor_id"]),
        frames=frames_of(node),
    )


def frames_of(node: Node) -> list[str]:
    """Return the traceback of what has failed in a node, with the lines of the notebook's cells.

    A node has no source of a cell, and does not know what the notebook calls it.
    """
    frames = []
    for frame in node.frames:
        place = _FRAME.search(frame)
        line = linecache.getline(place[1], int(place[2])).strip() if place else ""
        frames.append(with_cells(f"{frame}\n    {line}" if line else frame))
    return frames
