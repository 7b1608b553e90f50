"""Names what a run waits for when nothing comes, and withdraws it when the run moves again.

`waits` decides, a pure function of `Facts` and the time. `Watchdog` asks it once a second and
publishes what it says.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ..errors import SessionClosed
from ..events import SLOTS, Event, Stalled, StallEnded
from ..steering.machine import RunState
from .membership import Doing, Member

log = logging.getLogger(__name__)

INTERVAL = 1.0
"""Seconds between two looks, or a quarter of the patience if that is less."""

WATCHDOG_TIMEOUT = 20.0
"""Seconds that the end of a run waits for the last look."""

JOB = "the Spark job"
"""The phase in which workers train."""


class Phase:
    """The work of a run's own thread, and since when it is busy with it.

    Parameters
    ----------
    clock : callable
        Seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.enter("the beginning of the run")

    def enter(self, name: str) -> None:
        """Begin with something else; `name` completes "waits for"."""
        self.now: tuple[str, float] = name, self._clock()


@dataclass(frozen=True, slots=True)
class Facts:
    """A run as it is at one moment. All times are of one monotonic clock, in seconds.

    Parameters
    ----------
    state : str
        The run's.
    phase : str
        What its own thread is busy with.
    since : float
        When that began.
    sync : str
        The sync mode.
    slots : int
        Tasks that Spark runs at once.
    members : sequence of Member
        Those that train.
    missing : sequence of int
        Partitions that are not used up and that no worker trains.
    changed : float
        When a member came or left last.
    left : sequence of int
        Spark's tasks of the members that have left.
    held : str
        Which runs have the slots that it needs, such as "run 1 holds both slots of local[2]".
    saving : tuple of str and float, optional
        Where a checkpoint is being written, and since when.
    lockstep : bool
        Whether all workers make each step together, so that they wait for those that are missing.
    continues : bool
        Whether they wait for those no longer than the patience.
    """

    state: str
    phase: str
    since: float
    sync: str
    slots: int
    members: Sequence[Member]
    missing: Sequence[int]
    changed: float
    left: Sequence[int] = ()
    held: str = ""
    saving: tuple[str, float] | None = None
    lockstep: bool = False
    continues: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """One thing that a run waits for.

    Parameters
    ----------
    cause : str
        The same for as long as it is the same wait.
    what : str
        Completes "waits for".
    since : float
        The time, by the facts' clock.
    executor : str, optional
        Where to look: Spark's id of an executor, or None for Spark as a whole.
    known : str
        What comes of it, where the reason is known.
    """

    cause: str
    what: str
    since: float
    executor: str | None = None
    known: str = ""


HELD = (
    "This run is queued, and starts when they are free. For room now, stop another run, or "
    "repartition it into fewer partitions: run.stop() or run.repartition(1), %tos_stop or "
    "%tos_repartition 1."
)

UNSAVED = "Training continues without it. See whether the disk or the file system answers."


def is_queued(state: str, causes: Iterable[str]) -> bool:
    """Tell whether a run has not begun because others have the slots that it needs.

    Parameters
    ----------
    state : str
        The run's.
    causes : iterable of str
        Of its waits.
    """
    return state == RunState.STARTING and any(cause.startswith(SLOTS) for cause in causes)


def held(workers: Mapping[str, int], slots: int, master: str) -> str:
    """Return which runs have all slots, in words; empty if some are free.

    Parameters
    ----------
    workers : mapping of str to int
        How many workers each of the other runs has, by its number or its name in quotes.
    slots : int
        Tasks that Spark runs at once.
    master : str
        Spark's.
    """
    if sum(workers.values()) < slots:
        return ""
    *most, last = (run for run, count in workers.items() if count)
    who = f"runs {', '.join(most)} and {last} hold" if most else f"run {last} holds"
    which = {1: "the only slot", 2: "both slots"}.get(slots, f"all {slots} slots")
    return f"{who} {which} of {master}"


def waits(facts: Facts, now: float, patience: float) -> list[Wait]:
    """Return the waits of a run that have lasted longer than its patience.

    Parameters
    ----------
    facts : Facts
    now : float
        The time, by the facts' clock.
    patience : float
        Seconds.

    Returns
    -------
    list of Wait
        Empty while all is well. A paused run waits for a person, and at most for its checkpoint.
    """
    found = [*_training(facts), *_checkpoint(facts)]
    return [wait for wait in found if wait.known == HELD or now - wait.since >= patience]


def _training(facts: Facts) -> list[Wait]:
    if facts.state == RunState.PAUSED:
        return []
    # A run that is about to begin has no Spark job, of which partitions could be missing.
    if facts.held and (facts.missing or facts.state == RunState.STARTING):
        return [Wait(f"{SLOTS}{facts.held}", facts.held, facts.since, known=HELD)]
    if facts.phase == JOB:
        return _workers(facts)
    return [Wait(facts.phase, facts.phase, facts.since)]


def _checkpoint(facts: Facts) -> list[Wait]:
    if facts.saving is None:
        return []
    uri, since = facts.saving
    return [Wait("checkpoint", f"a checkpoint to be stored in {uri}", since, known=UNSAVED)]


def _workers(facts: Facts) -> list[Wait]:
    found = [_silence(facts, member) for member in facts.members]
    since = max(facts.since, facts.changed)
    if not facts.members and not facts.missing:
        found.append(Wait("end", "Spark to end the job: every partition is used up", since))
    elif len(facts.members) < min(facts.slots, len(facts.members) + len(facts.missing)):
        found.append(Wait("worker", _absence(facts), since))
    return found


def _absence(facts: Facts) -> str:
    first, *others = facts.missing
    more = f" and {len(others)} more" if others else ""
    alone = "" if facts.members else ", and no other worker trains"
    return f"a worker to join for partition {first}{more}{alone}"


def _silence(facts: Facts, member: Member) -> Wait:
    waiting = sum(other.doing == Doing.WAIT for other in facts.members if other is not member)
    held = ""
    if waiting and member.doing != Doing.WAIT:
        held = f"; {waiting} other{'s wait' if waiting > 1 else ' waits'} for it ({facts.sync})"
    who = (
        f"partition {member.partition} on executor {member.executor} ({member.host}, process "
        f"{member.pid}, attempt {member.attempt}), {member.doing} in epoch {member.epoch + 1}"
    )
    cause = f"silent {member.partition}.{member.task}"
    return Wait(cause, f"{who}{held}", member.heard, member.executor)


class Watchdog:
    """A thread that publishes `Stalled` once for each wait, and `StallEnded` when it is over.

    Parameters
    ----------
    facts : callable
        Returns the `Facts` of now.
    look : callable
        Takes an executor's id, or None; returns a sentence that says what to look at.
    publish : callable
        Takes an event.
    patience : float
        Seconds.
    clock : callable
        The facts' clock.
    act : callable, optional
        Takes the facts of each look, and their time.
    interval : float
        Seconds between two looks.
    timeout : float
        Seconds that its end waits for a look under way.
    """

    def __init__(
        self,
        facts: Callable[[], Facts],
        look: Callable[[str | None], str],
        publish: Callable[[Event], None],
        patience: float,
        clock: Callable[[], float] = time.monotonic,
        act: Callable[[Facts, float], None] = lambda facts, now: None,
        interval: float = INTERVAL,
        timeout: float = WATCHDOG_TIMEOUT,
    ) -> None:
        self._act = act
        self._facts = facts
        self._look = look
        self._publish = publish
        self._patience = patience
        self._interval = min(interval, patience / 4)
        self._timeout = timeout
        self._clock = clock
        self._open: dict[str, Stalled] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tos-watchdog", daemon=True)

    @property
    def stalls(self) -> tuple[Stalled, ...]:
        """What the run waits for now, beyond its patience."""
        return tuple(self._open.values())

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """End the thread, and withdraw what was published."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(self._timeout)
            if self._thread.is_alive():
                log.warning(
                    "The watchdog still looks %g s after the run's end; it is left.",
                    self._timeout,
                )
        self._withdraw(set())

    def check(self) -> None:
        """Look once."""
        facts, now = self._facts(), self._clock()
        self._act(facts, now)
        found = {wait.cause: wait for wait in waits(facts, now, self._patience)}
        self._withdraw(set(found))
        for wait in found.values():
            if wait.cause not in self._open:
                self._publish_stall(wait, time.time() - (now - wait.since))

    def _publish_stall(self, wait: Wait, since: float) -> None:
        at = time.strftime("%H:%M:%S", time.localtime(since))
        text = f"Nothing has come since {at}: the run waits for {wait.what}."
        if wait.known:
            text = f"Waiting: {wait.what}."
        look = wait.known or self._look(wait.executor)
        stalled = Stalled(time.time(), wait.cause, text, look, since)
        self._open = self._open | {wait.cause: stalled}
        self._publish(stalled)

    def _withdraw(self, keep: set[str]) -> None:
        for cause in self._open.keys() - keep:
            self._open = {c: stalled for c, stalled in self._open.items() if c != cause}
            self._publish(StallEnded(time.time(), cause))

    def _run(self) -> None:
        # At once, too: a run may have to wait for slots from the beginning.
        ended = self._ended.is_set()
        while not ended:
            try:
                with suppress(SessionClosed):
                    self.check()
            except Exception:
                log.warning("The watchdog could not look.", exc_info=True)
            ended = self._ended.wait(self._interval)
