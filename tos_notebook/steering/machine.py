"""What a run may do when: its states, the commands, and the table that decides.

Pure: no thread, no clock. Commands come from people and are imperative; events come from
the run itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from ..errors import InvalidTransition


class RunState(StrEnum):
    """Where a run stands."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"


class Command(StrEnum):
    """What a person may ask of a run; `actions.ACTIONS` says how."""

    PAUSE = "pause"
    UNPAUSE = "unpause"
    STOP = "stop"
    REPARTITION = "repartition"
    SWAP_COMBINER = "swap combiner"
    SWAP_STRATEGY = "swap strategy"
    SET = "set"
    CHAOS = "chaos"


class RunEvent(StrEnum):
    """What a run reports of itself."""

    STARTED = "started"
    """Its first worker joined."""
    ENDED = "ended"
    """All its jobs are over: the data is used up, or the stop took effect."""
    FAILED = "failed"
    """An error ended it."""


_S, _C, _E = RunState, Command, RunEvent

ACTIVE = frozenset({_S.STARTING, _S.RUNNING, _S.PAUSED, _S.STOPPING})
"""States in which the run may still change parameters."""

ONWARD = ACTIVE - {_S.STOPPING}
"""States in which another epoch may begin."""


_STEER = set(Command) - {_C.PAUSE, _C.UNPAUSE, _C.STOP}
"""Commands that change settings, not the state."""

COMMANDS: Mapping[RunState, Mapping[Command, RunState]] = {
    # A pause may come before the first worker does: start() returns at once.
    _S.STARTING: {_C.PAUSE: _S.PAUSED, _C.STOP: _S.STOPPING, **dict.fromkeys(_STEER, _S.STARTING)},
    _S.RUNNING: {_C.PAUSE: _S.PAUSED, _C.STOP: _S.STOPPING, **dict.fromkeys(_STEER, _S.RUNNING)},
    _S.PAUSED: {_C.UNPAUSE: _S.RUNNING, _C.STOP: _S.STOPPING, **dict.fromkeys(_STEER, _S.PAUSED)},
    _S.STOPPING: {},
    _S.FINISHED: {},
    _S.STOPPED: {},
    _S.FAILED: {},
}
"""``{state: {command: next state}}``; what is missing is illegal."""

EVENTS: Mapping[RunState, Mapping[RunEvent, RunState]] = {
    _S.STARTING: {_E.STARTED: _S.RUNNING, _E.ENDED: _S.FINISHED, _E.FAILED: _S.FAILED},
    # An end of a pause, or a stop, may overtake the first worker: its event then changes nothing.
    _S.RUNNING: {_E.STARTED: _S.RUNNING, _E.ENDED: _S.FINISHED, _E.FAILED: _S.FAILED},
    _S.PAUSED: {_E.STARTED: _S.PAUSED, _E.ENDED: _S.FINISHED, _E.FAILED: _S.FAILED},
    _S.STOPPING: {_E.STARTED: _S.STOPPING, _E.ENDED: _S.STOPPED, _E.FAILED: _S.FAILED},
    _S.FINISHED: {},
    _S.STOPPED: {},
    _S.FAILED: {},
}
"""``{state: {event: next state}}``; what is missing is illegal."""

_REASONS: Mapping[tuple[RunState, Command | None], str] = {
    (_S.STARTING, _C.UNPAUSE): "it is not paused.",
    (_S.RUNNING, _C.UNPAUSE): "it is not paused.",
    (_S.PAUSED, _C.PAUSE): "it is paused already; unpause it, or stop it.",
    (_S.STOPPING, _C.STOP): "a stop is under way already; wait for it.",
    (_S.STOPPING, None): "it keeps its weights and ends now; start another run to continue.",
    (_S.FINISHED, None): "all its epochs are done; start another run to continue.",
    (_S.STOPPED, None): "it was stopped and kept its weights; start another run to continue.",
    (_S.FAILED, None): "an error ended it; wait() raises it. Start another run.",
}


class Machine:
    """The state of one run, and the only way to change it. Not thread-safe."""

    def __init__(self) -> None:
        self._state = RunState.STARTING

    @property
    def state(self) -> RunState:
        """Where the run stands."""
        return self._state

    @property
    def active(self) -> bool:
        """Whether the run may still change parameters."""
        return self._state in ACTIVE

    def command(self, command: Command) -> RunState:
        """Do what a person asks, and return the new state.

        Raises
        ------
        InvalidTransition
            The command is illegal in this state; nothing was changed.
        """
        self.require(command)
        self._state = COMMANDS[self._state][command]
        return self._state

    def require(self, command: Command) -> None:
        """Refuse what a person asks if it is illegal now; nothing is changed.

        Raises
        ------
        InvalidTransition
            It is illegal in this state.
        """
        if command not in COMMANDS[self._state]:
            raise InvalidTransition(self._state, command, reason(self._state, command))

    def event(self, event: RunEvent) -> RunState:
        """Take note of what happened to the run, and return the new state.

        Raises
        ------
        InvalidTransition
            The run is over; nothing was changed.
        """
        following = EVENTS[self._state].get(event)
        if following is None:
            raise InvalidTransition(self._state, f"be {event}", "the run has already ended.")
        self._state = following
        return following


def reason(state: RunState, command: Command) -> str:
    """Return why a command is illegal in a state, and what to do instead."""
    return _REASONS.get((state, command)) or _REASONS[state, None]
