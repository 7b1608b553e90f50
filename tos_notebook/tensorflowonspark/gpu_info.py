"""The GPUs of this host that no process uses, by ``nvidia-smi``."""

from __future__ import annotations

import logging
import random
import re
import subprocess
import time

from ..errors import ConfigError, WorkerEnvironment

logger = logging.getLogger(__name__)

MAX_RETRIES = 3
"""How often to look again for GPUs that are free, after 30, 60 and 90 seconds."""

AS_STRING = "string"
AS_LIST = "list"

WAIT = 30.0
"""Seconds before the second look; each later wait is longer by as much."""

TIMEOUT = 60.0
"""Seconds for ``nvidia-smi``."""

_GPU = re.compile(r"^GPU (?P<index>\d+): .*\(UUID: (?P<uuid>[^)]+)\)", re.MULTILINE)


def is_gpu_available() -> bool:
    """Tell whether this host has GPUs: whether ``nvidia-smi`` is there and works."""
    try:
        _ask("--list-gpus")
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def get_gpus(num_gpu: int = 1, worker_index: int = -1, format: str = AS_STRING) -> str | list[str]:
    """Return GPUs that no process computes on, looking again while there are too few.

    Parameters
    ----------
    num_gpu : int
        How many.
    worker_index : int
        This node's number on the host, by which nodes that look at the same time take different
        ones. With -1 it takes any, at random.
    format : {AS_STRING, AS_LIST}

    Returns
    -------
    str or list of str
        Their numbers, with commas between them or as a list.

    Raises
    ------
    WorkerEnvironment
        Too few were free, also after `MAX_RETRIES` more looks.
    ConfigError
        Another format.
    """
    if format not in (AS_STRING, AS_LIST):
        raise ConfigError(f"format: expected {AS_STRING!r} or {AS_LIST!r}, got {format!r}.")
    chosen = _chosen(_free(num_gpu), num_gpu, worker_index)
    logger.info("GPU %s", ", ".join(chosen))
    return ",".join(chosen) if format == AS_STRING else chosen


def _free(wanted: int) -> list[str]:
    known = [(found["index"], found["uuid"]) for found in _GPU.finditer(_ask("--list-gpus"))]
    for retry in range(MAX_RETRIES + 1):
        busy = _ask("--format=csv,noheader,nounits", "--query-compute-apps=gpu_uuid").split()
        free = [index for index, uuid in known if uuid not in busy]
        if len(free) >= wanted:
            return free
        if retry < MAX_RETRIES:
            logger.warning("%d GPUs are wanted, and %d are free.", wanted, len(free))
            time.sleep(WAIT * (retry + 1))
    uses = _ask("--format=csv", "--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory")
    raise WorkerEnvironment(
        f"Expected {wanted} free GPUs on this host, which has {len(known)}; {len(free)} are free. "
        f"Ask for fewer (num_gpus), or end what uses them:\n{uses}"
    )


def _chosen(free: list[str], wanted: int, worker_index: int) -> list[str]:
    if worker_index < 0:
        return random.sample(free, wanted)
    first = worker_index * wanted
    if first + wanted > len(free):
        # More nodes than GPUs: they share, from the first one on.
        first = worker_index % max(1, len(free) // max(1, wanted)) * wanted
    return free[first : first + wanted]


def _ask(*options: str) -> str:
    return subprocess.check_output(["nvidia-smi", *options], timeout=TIMEOUT).decode()
