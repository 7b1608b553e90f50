"""The driver's half of a run, in a Spark task: it trains, and answers the notebook's letters."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from ...cluster.remote.joining import Way, is_repeated, join, leave, unpacked
from ...cluster.remote.mailbox import LARGEST, Mailbox
from ...cluster.remote.tasks import Sent
from ...common.threads import in_thread
from ...errors import ConfigError, TosError
from ...events import Event
from ...steering.source import commands_from
from ..resume import resume
from ..run import Run
from ..session import train_once
from .letters import (
    DOWN,
    EVENTS,
    FEW,
    UP,
    Answer,
    Asked,
    Call,
    Told,
    fitting,
    part_of,
    read,
    said,
    size_of,
    written,
)
from .request import Request, loaded

logger = logging.getLogger(__name__)

BEAT = 0.25
"""Seconds between two looks for letters."""

ALONE = 120.0
"""Seconds without a letter after which the run stops, and keeps its last checkpoint."""

METHODS = (
    *("pause", "unpause", "stop", "repartition", "swap_combiner", "swap_strategy", "set", "chaos"),
    "parameters",
)
"""What the notebook may call."""


def drive(way: Way, sent: Sent) -> Iterator[bytes]:
    """Train a run; yield its last parameters when it has ended.

    Parameters
    ----------
    way : Way
        To the notebook's session.
    sent : Sent
        A packed `Request`; it has come with the task's function.
    """
    if is_repeated():
        raise TosError("The Spark task with the run's server was lost. It is not started again.")
    context = join(way)
    # This task holds one of Spark's slots.
    context.taken = 1
    mail = way.mail(context.session)
    try:
        # It has no facts: the task runs, and is yet to start the run.
        mail.put(DOWN, written(Told(0, 0)))
        outbox = Outbox()
        try:
            run = _begun(context, unpacked(sent.value, context.session), outbox)
        except Exception as error:
            if not isinstance(error, TosError):
                logger.exception("The run does not begin in this task.")
            mail.put(DOWN, written(Told(0, 0, answers=(said(0, error),))))
            return
        try:
            Served(run, mail, outbox).until_end()
        finally:
            if run.active:
                run.stop(reason="the Spark task with its server has ended")
        buffer = run.parts.training.parameters.read()[0]
        for start in range(0, len(buffer), LARGEST):
            yield buffer[start : start + LARGEST].tobytes()
    finally:
        leave(context.session)


def _begun(context: Any, request: Request, outbox: Outbox) -> Run:
    program = loaded(request.model)
    place = {"server_host": context.driver_host()}
    options = {**request.options, "sinks": [outbox]}
    if request.uri is None:
        session = {**request.session, **place}
        return train_once(context.session, program, session, request.data, options)
    run = resume(
        request.uri, request.data, spark=context.session, program=program, **place, **options
    )
    outbox.begin_with(run.parts.resumed.past if run.parts.resumed else ())
    return run


class Outbox:
    """A sink that keeps events until the notebook has them.

    Attributes
    ----------
    past : int
        How many of them are of a resumed run, from before.
    """

    def __init__(self) -> None:
        self.past = 0
        self._first = 0
        self._waiting: list[tuple[Event, int]] = []
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        """Keep one more, unless no letter could hold it."""
        size = size_of(event)
        if size > EVENTS:
            logger.warning(
                "The notebook is not told of a %s of %d bytes.", type(event).__name__, size
            )
            return
        with self._lock:
            self._waiting.append((event, size + len(", ")))

    def begin_with(self, past: Iterable[Event]) -> None:
        """Put what a resumed run did before in front of all else; before anything is taken."""
        own = Outbox()
        for event in past:
            own(event)
        with self._lock:
            self._waiting[:0] = own._waiting
        self.past = len(own._waiting)

    def take(self, seen: int) -> tuple[int, tuple[Event, ...], bool]:
        """Forget what was seen; return the number of the next event, a letter's, and if more wait.

        Parameters
        ----------
        seen : int
            How many events have come.
        """
        with self._lock:
            gone = min(max(0, seen - self._first), len(self._waiting))
            del self._waiting[:gone]
            self._first += gone
            count = size = 0
            for _, own in self._waiting:
                if size + own > EVENTS:
                    break
                size, count = size + own, count + 1
            events = tuple(event for event, _ in self._waiting[:count])
            return self._first, events, count < len(self._waiting)


class Served:
    """Answers the notebook's letters until the run has ended, and all is told.

    Parameters
    ----------
    run : Run
    mail : Mailbox
    outbox : Outbox
    alone : float
        Seconds without a letter after which the run stops.
    """

    def __init__(self, run: Run, mail: Mailbox, outbox: Outbox, alone: float = ALONE) -> None:
        self._run, self._mail, self._outbox, self._alone = run, mail, outbox, alone
        self._asked = Asked(-1, 0)
        self._heard = time.monotonic()
        self._answers: dict[int, Answer] = {}
        self._made: dict[int, Future[None]] = {}
        self._beat = 0

    def until_end(self) -> None:
        """Return when the notebook has all events, or is gone."""
        left = False
        while self.look():
            if self._silent and not left:
                left = True
                self._stop(f"the notebook has not asked for {self._alone:g} s")
            threading.Event().wait(BEAT)

    @property
    def _silent(self) -> bool:
        return time.monotonic() - self._heard > self._alone

    def look(self) -> bool:
        """Read a letter and write one; return whether others may come."""
        content = self._mail.get(UP)
        if content is not None:
            asked: Asked = read(content, Asked)
            if asked.beat != self._asked.beat:
                self._heard = time.monotonic()
            self._asked = asked
        for call in self._asked.calls:
            if call.number not in self._made:
                self._made[call.number] = in_thread("tos-call", partial(self._make, call))
        # Asked before: what is told after the end is nothing.
        ended = not self._run.active
        first, events, more = self._outbox.take(self._asked.seen)
        numbers = [call.number for call in self._asked.calls]
        answers = fitting((self._answers[n] for n in numbers if n in self._answers), 2 * FEW)
        self._beat += 1
        facts = {**facts_of(self._run, ended), "past": self._outbox.past}
        told = Told(self._beat, first, events, more, answers, facts)
        self._mail.put(DOWN, written(told))
        if ended and self._silent:
            return False
        if len(answers) < len(numbers) or not all(made.done() for made in self._made.values()):
            return True
        # The last letter was read, too: its events were seen.
        return not (ended and not events and self._asked.beat > 0)

    def _make(self, call: Call) -> None:
        try:
            with commands_from(call.source):
                answer = Answer(call.number, self._result(call))
        except Exception as error:
            answer = said(call.number, error)
        self._answers[call.number] = answer

    def _result(self, call: Call) -> Any:
        if call.method not in METHODS:
            raise ConfigError(f"Expected one of {', '.join(METHODS)}; got {call.method!r}.")
        given = dict(call.arguments)
        if call.method == "parameters":
            return self._write_parameters(call.number)
        if call.method == "chaos":
            return self._run.chaos(*given["rules"])
        if call.method == "stop":
            # It is awaited by the notebook, which sees the end.
            return self._stop(given.get("reason"))
        result = getattr(self._run, call.method)(**given)
        return result if isinstance(result, str) else None

    def _stop(self, reason: str | None) -> None:
        if self._run.state in ("finished", "stopped", "failed"):
            return
        in_thread("tos-stopping", lambda: self._run.stop(reason=reason))

    def _write_parameters(self, number: int) -> tuple[int, int]:
        """Write the parameters for a call; the notebook, which reads them, drops the letters."""
        buffer, version = self._run.parts.training.parameters.read()
        starts = range(0, len(buffer), LARGEST)
        for part, start in enumerate(starts):
            self._mail.put(part_of(number, part), buffer[start : start + LARGEST].tobytes())
        return len(starts), version


def facts_of(run: Run, ended: bool) -> Mapping[str, Any]:
    """Return what a notebook shows of a run beside its events."""
    error = run.parts.training.error
    return {
        "run_id": run.run_id,
        "group": run.parts.training.run_id,
        "gradients": run.program.gradients,
        "uri": run.uri,
        "ended": ended,
        "state": run.state,
        "error": None if error is None else said(0, error),
        "status": run.status,
        "settings": run.settings,
        "stalls": fitting(run.stalls, FEW // 2),
        "skipped": fitting(run.skipped, FEW),
        "shards": run.shards,
        "commands": tuple(map(str, run.commands)),
        "validates": run.validates,
        "partitions": run.lifecycle.epochs.source.partitions,
        "workers": run.lifecycle.workers,
        "slots": run.slots,
    }
