"""A run of several workers that make each step together, called without connections."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.numpy_program import Counting
from tests.support.threads import LIMIT, Aside
from tests.unit.worker.support import join, numbers, of, push, until
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.exchange import WorkerExchange
from tos_notebook.coordination.membership import Doing, Member
from tos_notebook.coordination.settings import Settings
from tos_notebook.coordination.timeouts import Timeouts
from tos_notebook.data.arrays import ArraySource
from tos_notebook.events import Event, MilestoneCommitted
from tos_notebook.strategies import AllReduce
from tos_notebook.strategies.base import TrainerSetup
from tos_notebook.wire.messages import Directive, Poll


class Crew:
    """A run of several workers, called without connections."""

    def __init__(
        self, strategy: AllReduce, workers: int = 2, long_poll: float = LIMIT, interval: int = 1
    ) -> None:
        program = Counting()
        program.gradients = strategy.of == "gradients"
        self.layout = program.spec.layout
        settings = Settings(strategy.exact_settings(), interval, strategy.default_sync)
        initial = self.layout.allocate()
        self.events: list[Event] = []
        self.run = Coordinator(
            "run",
            strategy.trainer(TrainerSetup(self.layout, initial, settings, updater=lambda: program)),
            settings,
            publish=self.events.append,
            locate=lambda task: ("executor", "here"),
            on_failure=lambda: None,
            timeouts=Timeouts(long_poll=long_poll),
        )
        self.run.begin_span(ArraySource((numbers(100),), workers), 0, 0)
        self.members: list[Member] = []
        self.exchanges: list[WorkerExchange] = []
        self.counts = [0] * workers
        for partition in range(workers):
            member, _ = self.run.requests.join(join(partition, partition), False)
            exchange = self.run.exchange("")
            exchange.open()
            self.members.append(member)
            self.exchanges.append(exchange)

    def push(self, worker: int, **changes: float) -> Directive:
        """Push a worker's next milestone; return what it does next."""
        base = self.run.parameters.version
        message = push(self.counts[worker], **{"base_version": base} | changes)
        self.counts[worker] += 1
        payload = self.layout.allocate()
        place = self.exchanges[worker].receive_into(message, len(payload))
        assert place is not None
        place[:] = payload.tobytes()
        return self.exchanges[worker].push(self.members[worker], message)[0].directive

    def poll(self, worker: int) -> Directive:
        message = Poll(0)
        self.exchanges[worker].receive_into(message, 0)
        return self.exchanges[worker].poll(self.members[worker], message)[0].directive

    def beside(self, call: Callable[[], Directive], worker: int) -> Aside:
        """Call in a thread, and return when the worker waits for the others."""
        aside = Aside(call)
        until(lambda: self.members[worker].doing is Doing.WAIT)
        return aside

    def milestones(self, number: int) -> dict[int, MilestoneCommitted]:
        """Return the milestones of one step, by partition."""
        found = of(MilestoneCommitted, self.events)
        return {event.partition: event for event in found if event.sequence == number}
