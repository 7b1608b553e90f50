"""A run of many workers in one process: the real server, wire, worker loop and programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from tos_notebook.archive.runner import Runner
from tos_notebook.blocks.block import Columns
from tos_notebook.blocks.partitioners import RandomPartitioner
from tos_notebook.combiners.base import Combiner
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.job_span import DataLayout
from tos_notebook.coordination.server import WorkerHandler
from tos_notebook.coordination.settings import Settings
from tos_notebook.data.arrays import ArraySource
from tos_notebook.events import Event, MilestoneCommitted
from tos_notebook.layout import Layout
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.exchange import exchange
from tos_notebook.strategies.ps.settings import ServerSettings
from tos_notebook.strategies.ps.trainer import ServerTrainer
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.inproc import InprocListener, connect_inproc
from tos_notebook.wire.messages import Join
from tos_notebook.worker.exchange import WorkerContext
from tos_notebook.worker.loop import Worker
from tos_notebook.worker.plan import Plan

from .turns import Gated, Turns

RUN = "papers"


class Simulation:
    """One run, whose workers are of this process; a context manager that ends it.

    Parameters
    ----------
    layout : Layout
    initial : ndarray, shape (layout.nbytes,), uint8
        The first parameters.
    combiner : Combiner
    sync_interval : int
        Batches between two pushes.
    batch_size : int
    seed : int
        Of the order of each worker's rows.
    learning_rate : float, optional
        Set in every runner; by default they keep their own.

    Attributes
    ----------
    pushes : list of MilestoneCommitted
        In the order in which they were merged.
    steps : int
        Batches of all pushes.
    """

    def __init__(
        self,
        layout: Layout,
        initial: npt.NDArray[np.uint8],
        combiner: Combiner,
        sync_interval: int,
        batch_size: int,
        seed: int,
        learning_rate: float | None = None,
    ) -> None:
        self.pushes: list[MilestoneCommitted] = []
        self.steps = 0
        self.store = Center(layout, initial, combiner)
        self._plan = Plan(RUN, seed, True, batch_size, 0)
        self._tasks = 0
        self._training = Coordinator(
            RUN,
            ServerTrainer(self.store),
            Settings(ServerSettings(combiner), sync_interval, learning_rate=learning_rate),
            publish=self._note,
            locate=lambda task: ("driver", "here"),
            on_failure=lambda: None,
        )
        self._listener = InprocListener(lambda peer: WorkerHandler(lambda: self._training))
        self._listener.start()

    def training(self) -> Coordinator:
        """Return the run, as `WorkerHandler` asks a server for it."""
        return self._training

    def work(
        self,
        runners: Sequence[Runner],
        rows: Sequence[Columns],
        epochs: tuple[int, int],
        order: Iterator[int],
        enough: Callable[[], bool] = lambda: False,
    ) -> None:
        """Let workers train their rows, as one span of the run, until all have.

        All join, and train up to their first push, before the first of them pushes.

        Parameters
        ----------
        runners : sequence of Runner
            One for each worker; the same one only where it keeps nothing from call to call.
        rows : sequence of Columns
            Likewise.
        epochs : tuple of int
            The first and the last, each over all of a worker's rows.
        order : iterator of int
            Which worker pushes next. Turns of those that are done are left out.
        enough : callable
            Asked after each turn; once it is true, no further push is merged.
        """
        workers = len(runners)
        # Each span may have other rows, as each round of clients does.
        layout = DataLayout(workers, RandomPartitioner(workers), epochs[0])
        self._training.begin_span(ArraySource([np.zeros((workers, 1))], workers), *epochs, layout)
        turns = [
            Turns(partial(self._worker, number, runner, columns))
            for number, (runner, columns) in enumerate(zip(runners, rows, strict=True))
        ]
        _take_each(turns)
        while not enough() and not all(turn.done for turn in turns):
            turns[next(order)].take()
        if not all(turn.done for turn in turns):
            self._training.settle()
            _take_each(turns)
        if self._training.error is not None:
            raise self._training.error

    def _worker(
        self, partition: int, runner: Runner, rows: Columns, wait: Callable[[], None]
    ) -> None:
        self._tasks += 1
        join = Join(RUN, partition, 0, self._tasks, "here", partition, segment="", metrics=[])
        connection = Gated(connect_inproc(self._listener), wait)
        try:
            moves = exchange(connection, runner.spec.layout, WorkerContext(join, new_secret()))
            Worker(connection, moves, runner, self._plan, join).run([rows])
        finally:
            connection.close()

    def _note(self, event: Event) -> None:
        if isinstance(event, MilestoneCommitted):
            self.pushes.append(event)
            self.steps += event.steps

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()


def _take_each(turns: Iterable[Turns]) -> None:
    for turn in turns:
        turn.take()
