"""``run.events``: what a run was told while it trained, and since when that is in force."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from .. import events
from ..common.rows import Rows
from ..readable import one_line
from ..steering.actions import ACTIONS, When
from ..steering.machine import Command
from ..steering.source import CALLBACKS, SCHEDULE
from .tally import Tally

if TYPE_CHECKING:
    import pandas as pd

MOST = 1000
"""Records that are kept, the latest."""

TEXT = 500
"""Characters of what was asked that are kept."""

RUN = "the run"
"""The source of what a run does without a command, as with `repartition_every`."""

OFTEN = (SCHEDULE, CALLBACKS)
"""What may set the learning rate at every step: of such a series one record is kept."""

ASKED, IN_FORCE, NO_EFFECT = "asked", "in force", "no effect"
"""What becomes of a command."""

_BY_ITSELF = {Command.REPARTITION, Command.CHAOS}
"""What a run does unasked: lay the rows out again, and end chaos that has run its course."""

_WITH_CHECKPOINT = {Command.SET, Command.SWAP_COMBINER, Command.STOP}
"""What a checkpoint holds from the moment at which it was asked for."""

_WITHOUT = {Command.PAUSE, Command.CHAOS}
"""What ends with the process."""


class Commands(Rows):
    """What a run was told; a table, and a DataFrame when asked."""

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with a row for each command, its values as they are."""
        import pandas as pd

        return pd.DataFrame(list(self))


@dataclass(slots=True)
class _Record:
    seconds: float
    epoch: int
    milestones: int
    command: str
    detail: str
    source: str
    state: str = ASKED
    since: float | None = None
    times: int = 1


class SteeringLog:
    """Collects commands and what became of them. Not thread-safe."""

    def __init__(self) -> None:
        self._records: deque[_Record] = deque(maxlen=MOST)

    def rows(self) -> Commands:
        """Return the records; see `History.steered`."""
        return Commands(asdict(record) for record in self._records)

    def __call__(self, event: events.Event, tally: Tally) -> None:
        """Take one event into account, which the tally has counted already."""
        if isinstance(event, events.MilestoneCommitted):
            # Nearly all events are.
            return
        now = round(tally.elapsed(event.time), 3)
        if isinstance(event, events.CommandAccepted):
            self._ask(event, now, tally)
        elif isinstance(event, events.CommandApplied):
            known = self._settle(event.command, IN_FORCE, now, event.detail)
            if not known and event.command in _BY_ITSELF:
                self._add(event, RUN, now, tally, IN_FORCE)
        elif isinstance(event, events.CommandLapsed):
            self._settle(event.command, NO_EFFECT, None, event.detail)
        elif isinstance(event, events.RunResumed):
            self._end(_WITH_CHECKPOINT, _WITHOUT, now)
        elif isinstance(event, events.RunFinished):
            self._end({Command.STOP}, {*Command}, now)

    def _ask(self, event: events.CommandAccepted, now: float, tally: Tally) -> None:
        if event.command == Command.UNPAUSE:
            # It came before every worker waited.
            self._settle(Command.PAUSE, NO_EFFECT, None)
        last = self._records[-1] if self._records else None
        series = event.source in OFTEN and event.command == Command.SET
        if series and last and (last.command, last.source) == (event.command, event.source):
            last.detail, last.times = one_line(event.detail, TEXT), last.times + 1
            last.state = ASKED
            return
        action = ACTIONS.get(event.command)
        at_once = action is not None and action.when is When.NOW
        self._add(event, event.source, now, tally, IN_FORCE if at_once else ASKED)

    def _add(
        self,
        event: events.CommandAccepted | events.CommandApplied,
        source: str,
        now: float,
        tally: Tally,
        state: str,
    ) -> None:
        totals, detail = tally.totals(), one_line(event.detail, TEXT)
        since = now if state == IN_FORCE else None
        place = now, totals.epoch + 1, totals.milestones
        self._records.append(_Record(*place, str(event.command), detail, source, state, since))

    def _settle(self, command: str, state: str, since: float | None, detail: str = "") -> bool:
        """Move the oldest open record of a command on; return whether there was one."""
        for record in self._records:
            if record.command == command and record.state == ASKED:
                record.state = state
                # Of a series, its first.
                record.since = since if record.since is None else record.since
                if state == NO_EFFECT or not record.detail:
                    record.detail = one_line(detail, TEXT) or record.detail
                return True
        return False

    def _end(self, done: set[Command], over: set[Command], now: float) -> None:
        """Settle what is open, by what has come into force at an end."""
        for record in self._records:
            if record.state == ASKED and (record.command in done or record.since is not None):
                record.state = IN_FORCE
                record.since = now if record.since is None else record.since
            elif record.state == ASKED and record.command in over:
                record.state = NO_EFFECT
