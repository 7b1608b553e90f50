"""Small helpers of nodes: addresses, paths, the executor's number, which GPUs TensorFlow sees."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..cluster.gpus import claim_gpus
from ..errors import WorkerEnvironment
from . import gpu_info

logger = logging.getLogger(__name__)

EXECUTOR_ID = "executor_id"
"""The file with an executor's number, in its working directory."""

HADOOP_TIMEOUT = 60.0
"""Seconds for ``hadoop classpath``."""


def single_node_env(
    num_gpus: int | None = 1, worker_index: int = -1, nodes: Sequence[str] = ()
) -> None:
    """Prepare this process's environment for TensorFlow by itself: Hadoop's classes, and GPUs.

    The GPUs that Spark gives the task are its GPUs, if Spark schedules them.

    Parameters
    ----------
    num_gpus : int or None
        How many GPUs TensorFlow is to see, where the host has any; None for one.
    worker_index : int
        This node's number; -1 if it has none.
    nodes : sequence of str
        ``host:port`` of all nodes, where they are known: those of one host share its GPUs.

    Raises
    ------
    WorkerEnvironment
        So many GPUs are not free, or Spark gave this process others before.
    """
    expand_hadoop_classpath()
    if claim_gpus():
        return
    wanted = 1 if num_gpus is None else num_gpus
    if wanted > 0 and gpu_info.is_gpu_available():
        index = index_on_host(worker_index, nodes) if worker_index >= 0 and nodes else worker_index
        gpus = str(gpu_info.get_gpus(wanted, index))
        logger.info("TensorFlow sees GPU %s.", gpus)
    else:
        gpus = ""
        logger.info("TensorFlow sees no GPU.")
    os.environ["CUDA_VISIBLE_DEVICES"] = gpus


def index_on_host(worker_index: int, nodes: Sequence[str]) -> int:
    """Return a node's number among those of its host, from 0."""
    hosts = [node.rpartition(":")[0] for node in nodes]
    return hosts[:worker_index].count(hosts[worker_index])


def expand_hadoop_classpath() -> None:
    """Put Hadoop's jars by their names on CLASSPATH, once: JNI does not understand globs."""
    home = os.environ.get("HADOOP_PREFIX")
    if not home or "TFOS_CLASSPATH_UPDATED" in os.environ:
        return
    command = [str(Path(home, "bin", "hadoop")), "classpath", "--glob"]
    found = subprocess.check_output(command, timeout=HADOOP_TIMEOUT).decode().strip()
    parts = filter(None, (os.environ.get("CLASSPATH"), found))
    os.environ["CLASSPATH"] = os.pathsep.join(parts)
    os.environ["TFOS_CLASSPATH_UPDATED"] = "1"


def requested_gpus(tf_args: Any) -> int | None:
    """Return the ``num_gpus`` of a program's arguments; None where they say nothing of it.

    Parameters
    ----------
    tf_args : object
        A mapping, what has it as an attribute, or a list of words, which has none.
    """
    if isinstance(tf_args, Mapping):
        found = tf_args.get("num_gpus")
    else:
        found = getattr(tf_args, "num_gpus", None)
    return None if found is None else int(found)


def get_ip_address() -> str:
    """Return the address of this host that others reach it by; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # To connect a datagram socket only chooses the interface.
            probe.connect(("8.8.8.8", 80))
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostbyname(socket.getfqdn())


def find_in_path(path: str, file: str) -> str | bool:
    """Return the first file of a name in the folders of a path; False if there is none.

    Parameters
    ----------
    path : str
        Folders as in PATH, with colons between them.
    file : str
    """
    candidates = (os.path.join(folder, file) for folder in path.split(os.pathsep))  # noqa: PTH118
    return next(filter(os.path.isfile, candidates), False)


def write_executor_id(num: int) -> None:
    """Write an executor's number to a file in its working directory."""
    Path(EXECUTOR_ID).write_text(str(num), encoding="ascii")


def read_executor_id() -> int:
    """Return the executor's number.

    Raises
    ------
    WorkerEnvironment
        None was written in this working directory.
    """
    path = Path(EXECUTOR_ID)
    if not path.is_file():
        raise WorkerEnvironment(
            f"Expected the executor's number in {path.absolute()}, found no such file: no node was "
            "started on this executor. Start as many nodes as there are executors, without dynamic "
            "allocation, and see what ended the nodes."
        )
    return int(path.read_text(encoding="ascii"))
