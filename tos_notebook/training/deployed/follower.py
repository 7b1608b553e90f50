"""Follows a run whose server is in a Spark task: reads its letters, and writes what is asked."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from concurrent.futures import wait as wait_for
from typing import Any

import numpy as np

from ...cluster.jobs import job_error
from ...cluster.remote.joining import GREETING
from ...cluster.remote.mailbox import Mailbox
from ...common.arrays import Buffer
from ...errors import (
    ConfigError,
    ConnectError,
    InvalidTransition,
    RemoteProtocolError,
    TosError,
    WaitTimeout,
)
from ...events import Event
from ...steering.source import source
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
    raised,
    read,
    size_of,
    written,
)

BUSY, IDLE = 0.4, 1.5
"""Seconds between two polls while something happens, and while nothing does."""

SILENT = 90.0
"""Seconds without a letter after which the task counts as lost."""

ANSWER = 60.0
"""Seconds for the task to answer a call."""

LAST = 60.0
"""Seconds for the task to return the last parameters once the run has ended, and no bytes."""

RATE = 1_000_000
"""Bytes a second in which the last parameters come at least."""

Ended = Callable[[list[bytes], "TosError | None"], object]


class Follower:
    """Polls the mailbox on a thread, from `begin` on until the run has ended.

    Parameters
    ----------
    mail : Mailbox
    job : Future
        Of the task; its result are the last parameters.
    silent : float
        Seconds without a letter after which the task counts as lost.

    Attributes
    ----------
    facts : mapping of str
        What is known of the run beside its events.
    """

    def __init__(self, mail: Mailbox, job: Future[list[bytes]], silent: float = SILENT) -> None:
        self.facts: Mapping[str, Any] = {}
        self._mail, self._job, self._silent = mail, job, silent
        self._numbers: Iterator[int] = itertools.count(1)
        self._calls: dict[int, tuple[Call, Future[Any]]] = {}
        self._unread: set[int] = set()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._beat = self._seen = 0
        self._told = -1
        self._over = False
        self._last = LAST
        self._heard = time.monotonic()

    def begun(self, timeout: float) -> None:
        """Wait for the run to begin.

        Raises
        ------
        TosError
            What has refused it there, or what has ended the task.
        WaitTimeout
            It has not begun in time.
        """
        end = time.monotonic() + timeout
        why = "See whether the cluster has a free slot"
        while time.monotonic() < end:
            over = self._job.done()
            told = self._letter()
            if told is not None and told.answers and not told.facts:
                raise raised(told.answers[0])
            if told is not None and told.facts:
                self.facts = told.facts
                return
            if told is not None:
                why = "The task runs, so it may still read the data. See what takes so long there"
            if over:
                self._job.result()
                raise ConnectError("The Spark task that was to have the server has ended.")
            wait_for([self._job], BUSY)
        raise WaitTimeout(
            f"Expected a Spark task to start the run's server within {timeout:g} s. {why}, "
            "on the Spark page of the server's application."
        )

    def begin(
        self, name: str, publish: Callable[[Event], object], ended: Ended, nbytes: int = 0
    ) -> None:
        """Follow on a thread.

        Parameters
        ----------
        name : str
            The run's id.
        publish : callable
            Takes each event, in order.
        ended : callable
            Takes the last parameters, in parts, and what has ended the run, if it failed.
        nbytes : int
            Of the last parameters.
        """
        self._last = LAST + nbytes / RATE
        self._thread = threading.Thread(
            target=self._follow, args=(name, publish, ended), name=f"tos-{name}", daemon=True
        )
        self._thread.start()

    def call(self, method: str, timeout: float = ANSWER, **arguments: Any) -> Any:
        """Ask the run for something; return its answer.

        Raises
        ------
        TosError
            What the run says.
        WaitTimeout
            It did not answer.
        """
        call, answer = self._ask(method, arguments)
        return self._awaited(call, answer, timeout)

    def _ask(self, method: str, arguments: Mapping[str, Any]) -> tuple[Call, Future[Any]]:
        answer = Future[Any]()
        with self._lock:
            if self._over:
                raise self._refusal(method)
            # Numbered here, so that no letter has a later call without an earlier one.
            call = Call(next(self._numbers), method, arguments, source())
            if (size := size_of(call)) > FEW:
                raise ConfigError(
                    f"{method}: expected at most {FEW:,} bytes in what a run in a Spark task is "
                    f"told, got {size:,}. Give a shorter text, or fewer rules."
                )
            self._calls[call.number] = call, answer
        self._wake.set()
        return call, answer

    @staticmethod
    def _awaited(call: Call, answer: Future[Any], timeout: float) -> Any:
        try:
            return answer.result(timeout)
        except Late:
            if answer.done():
                # The task says that something there took too long.
                raise
            raise WaitTimeout(
                f"The Spark task with the run's server did not answer {call.method!r} within "
                f"{timeout:g} s."
            ) from None

    def parameters(self) -> tuple[bytes, int]:
        """Return a copy of the parameters, and its version."""
        call, answer = self._ask("parameters", {})
        self._unread.add(call.number)
        parts = 0
        try:
            parts, version = self._awaited(call, answer, ANSWER)
            found = [self._part(call.number, part) for part in range(parts)]
        finally:
            # Backward, so that whatever ends this leaves the first ones for `forget`.
            for part in reversed(range(parts)):
                self._mail.drop(part_of(call.number, part))
            if parts:
                self._unread.discard(call.number)
        return b"".join(found), version

    def _part(self, number: int, part: int) -> bytes:
        found = self._mail.get(part_of(number, part))
        if self._over:
            # The last ones are here, so the caller does not wait for these.
            raise self._refusal("parameters")
        if found is None:
            raise RemoteProtocolError("Expected all parts of the parameters; some have gone.")
        return found

    def forget(self) -> None:
        """Drop all letters, also the unread ones; once the task has ended."""
        for letter in (UP, DOWN, GREETING):
            self._mail.drop(letter)
        for number in tuple(self._unread):
            part = 0
            while self._mail.drop(part_of(number, part)):
                part += 1
        self._unread.clear()

    def _letter(self) -> Told | None:
        content = self._mail.get(DOWN)
        return read(content, Told) if content else None

    def _follow(self, name: str, publish: Callable[[Event], object], ended: Ended) -> None:
        error: TosError | None = None
        last: list[bytes] = []
        try:
            while not self._poll(publish):
                if self._job.done():
                    # What it has written last may have come in between.
                    if not self._poll(publish):
                        self._job.result()
                        raise ConnectError("it has ended before the run")
                    break
                if time.monotonic() - self._heard > self._silent:
                    raise WaitTimeout(f"no letter came for {self._silent:g} s")
            last = self._job.result(self._last)
        except Exception as failed:
            reason = failed if isinstance(failed, TosError) else job_error(failed)
            error = ConnectError(
                f"The Spark task that has the server of run {name} was lost "
                f"({_first_line(reason)}). {self._advice()}"
            )
        answer = self.facts.get("error")
        if error is None and isinstance(answer, Answer):
            error = raised(answer)
        try:
            ended(last, error)
        finally:
            self.refuse_calls()

    def _advice(self) -> str:
        uri = self.facts.get("uri")
        if uri is None:
            return "It had no checkpoints. Give checkpoint_dir= to the next run, to resume it."
        return f"Its checkpoints are in {uri}: continue it by tos.resume({uri!r}, program=model)."

    def _poll(self, publish: Callable[[Event], object]) -> bool:
        """Write a letter and read one; return whether the run has ended and all is told."""
        self._wake.clear()
        self._beat += 1
        with self._lock:
            calls = fitting((call for call, _ in self._calls.values()), EVENTS)
        self._mail.put(UP, written(Asked(self._beat, self._seen, calls)))
        told = self._letter()
        busy = bool(calls)
        if told is not None and told.beat != self._told:
            self._heard, self._told = time.monotonic(), told.beat
            busy |= self._take(told, publish)
            if told.facts.get("ended") and not told.events and told.first >= self._seen:
                return True
        self._wake.wait(BUSY if busy else IDLE)
        return False

    def _take(self, told: Told, publish: Callable[[Event], object]) -> bool:
        new = told.events[max(0, self._seen - told.first) :]
        self._seen = max(self._seen, told.first + len(told.events))
        self.facts = told.facts
        for event in new:
            publish(event)
        for answer in told.answers:
            with self._lock:
                _, waiting = self._calls.pop(answer.number, (None, None))
            if waiting is not None and answer.error:
                waiting.set_exception(raised(answer))
            elif waiting is not None:
                waiting.set_result(answer.value)
        return bool(new) or told.more or bool(told.answers)

    def refuse_calls(self) -> None:
        """Refuse the calls that wait, and all others from now on."""
        with self._lock:
            self._over = True
            waiting, self._calls = list(self._calls.values()), {}
        for call, answer in waiting:
            answer.set_exception(self._refusal(call.method))

    def _refusal(self, method: str) -> InvalidTransition:
        state = str(self.facts.get("state", "failed"))
        return InvalidTransition(
            state, method, f"the Spark task with its server has ended. {self._advice()}"
        )


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


def joined(parts: list[bytes], nbytes: int) -> Buffer | None:
    """Return the parameters of which a task has returned parts; None if there are none.

    Raises
    ------
    RemoteProtocolError
        They have another length.
    """
    if not parts:
        return None
    found = np.frombuffer(b"".join(parts), np.uint8).copy()
    if len(found) != nbytes:
        raise RemoteProtocolError(
            f"Expected {nbytes:,} bytes of parameters, got {len(found):,} from the Spark task."
        )
    return found
