"""Several processes that measure together, each started afresh."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from typing import Any

_END = 600.0
"""Seconds for each report of a process, and for its end."""


def measured_by(
    worker: Callable[..., object], ranks: int, arguments: tuple[Any, ...], meetings: int, sizes: int
) -> list[Any]:
    """Return what the first process reports for each size.

    Parameters
    ----------
    worker : callable
        Takes the rank, the arguments and a pipe. Through the pipe it tells the others how to
        connect to it, and reports.
    ranks : int
        Processes.
    arguments : tuple
        For all workers.
    meetings : int
        How often each process hears what all have said.
    sizes : int
        How many reports follow.

    Raises
    ------
    TimeoutError
        A process does not report.
    """
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for rank in range(ranks):
        pipe, end = context.Pipe()
        target = (rank, *arguments, end)
        processes.append(context.Process(target=worker, args=target, daemon=True))
        processes[-1].start()
        pipes.append(pipe)
    for _ in range(meetings):
        said = [_take(pipe) for pipe in pipes]
        for pipe in pipes:
            pipe.send(said)
    found = [[_take(pipe) for pipe in pipes] for _ in range(sizes)]
    for process in processes:
        process.join(_END)
    return [first for first, *_ in found]


def _take(pipe: Pipe) -> Any:
    if not pipe.poll(_END):
        raise TimeoutError(f"Expected a process to report within {_END} s.")
    return pipe.recv()
