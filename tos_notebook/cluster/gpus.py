"""The GPUs that Spark gives a task, and none but those for TensorFlow."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from typing import Any

from ..errors import WorkerEnvironment

RESOURCE = "gpu"
"""Spark's name of the resource: ``spark.task.resource.gpu.amount``."""

VISIBLE = "CUDA_VISIBLE_DEVICES"

SETTINGS = {
    # nvidia-smi, which Spark asks, counts so; CUDA counts the fastest GPU first.
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    # A process that Spark keeps for later tasks must not keep all of a GPU's memory.
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}
"""What else CUDA and TensorFlow are told, unless the executor's environment does."""


class Gpus:
    """The GPUs of one Python process, by its first task.

    TensorFlow looks for them once, at its first operation, and never lets go of them.

    Parameters
    ----------
    environment : mutable mapping of str
        The process's.
    """

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self._environment = environment
        self._claimed: tuple[str, ...] | None = None

    def claim(self, context: Any) -> tuple[str, ...]:
        """Let TensorFlow see the GPUs of this task only; before its first operation.

        Parameters
        ----------
        context : pyspark.TaskContext

        Returns
        -------
        tuple of str
            Their addresses; empty, and nothing is changed, where Spark gives the task none.

        Raises
        ------
        WorkerEnvironment
            The process has served a task of other GPUs. It ends by that, and Spark tries again.
        """
        given = context.resources().get(RESOURCE)
        addresses = () if given is None else tuple(sorted(given.addresses))
        if self._claimed is None and addresses:
            for name, value in SETTINGS.items():
                self._environment.setdefault(name, value)
            self._environment[VISIBLE] = ",".join(addresses)
        if self._claimed not in (None, addresses):
            raise WorkerEnvironment(
                f"This Python process on {socket.gethostname()} was set up for "
                f"{_text(self._claimed)}, and Spark has now given it a task of {_text(addresses)}. "
                "TensorFlow cannot change over. Give each executor one GPU "
                "(spark.executor.resource.gpu.amount=1), or each task a separate process "
                "(spark.python.worker.reuse=false)."
            )
        self._claimed = addresses
        return addresses


def _text(addresses: tuple[str, ...] | None) -> str:
    return f"GPU {', '.join(addresses)}" if addresses else "no GPU"


_gpus = Gpus(os.environ)
"""This process's."""


def claim_gpus() -> tuple[str, ...]:
    """Claim the GPUs of the Spark task that this is called in; see `Gpus.claim`.

    Outside of tasks there is nothing to claim.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    return () if context is None else _gpus.claim(context)
