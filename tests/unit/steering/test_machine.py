"""What a run may do when."""

from __future__ import annotations

import itertools

import pytest

from tos_notebook.errors import InvalidTransition
from tos_notebook.steering.machine import COMMANDS, EVENTS, Command, Machine, RunEvent, RunState

S, C, E = RunState, Command, RunEvent

ROADS: dict[RunState, list[Command | RunEvent]] = {
    S.STARTING: [],
    S.RUNNING: [E.STARTED],
    S.PAUSED: [E.STARTED, C.PAUSE],
    S.STOPPING: [E.STARTED, C.STOP],
    S.FINISHED: [E.STARTED, E.ENDED],
    S.STOPPED: [C.STOP, E.ENDED],
    S.FAILED: [E.FAILED],
}
"""A way from the beginning to each state."""

STEER = {C.REPARTITION, C.SWAP_COMBINER, C.SWAP_STRATEGY, C.SET, C.CHAOS}
LEGAL = {
    S.STARTING: {C.PAUSE: S.PAUSED, C.STOP: S.STOPPING},
    S.RUNNING: {C.PAUSE: S.PAUSED, C.STOP: S.STOPPING},
    S.PAUSED: {C.UNPAUSE: S.RUNNING, C.STOP: S.STOPPING},
}
OVER = {S.FINISHED, S.STOPPED, S.FAILED}


def machine_in(state: RunState) -> Machine:
    machine = Machine()
    for step in ROADS[state]:
        if isinstance(step, Command):
            machine.command(step)
        else:
            machine.event(step)
    assert machine.state is state
    return machine


@pytest.mark.parametrize(("state", "command"), list(itertools.product(RunState, Command)))
def test_every_command_in_every_state(state: RunState, command: Command) -> None:
    machine = machine_in(state)
    following = LEGAL.get(state, {}).get(command)
    if state in LEGAL and command in STEER:
        following = state
    if following is not None:
        assert machine.command(command) is machine.state is following
        return
    with pytest.raises(InvalidTransition) as caught:
        machine.command(command)
    assert machine.state is state
    assert (caught.value.state, caught.value.command) == (state, command)
    assert str(caught.value).startswith(f"Cannot {command} while the run is {state}: ")
    assert caught.value.reason.endswith(".")


@pytest.mark.parametrize(("state", "event"), list(itertools.product(RunState, RunEvent)))
def test_every_event_in_every_state(state: RunState, event: RunEvent) -> None:
    machine = machine_in(state)
    if state in OVER:
        with pytest.raises(InvalidTransition):
            machine.event(event)
        assert machine.state is state
        return
    expected = {
        E.STARTED: S.RUNNING if state is S.STARTING else state,
        E.ENDED: S.STOPPED if state is S.STOPPING else S.FINISHED,
        E.FAILED: S.FAILED,
    }
    assert machine.event(event) is machine.state is expected[event]


@pytest.mark.parametrize("state", RunState)
def test_a_run_is_active_until_it_is_over(state: RunState) -> None:
    assert machine_in(state).active is (state not in OVER)


def test_a_pause_given_before_the_first_worker_holds_when_it_joins() -> None:
    machine = Machine()
    machine.command(C.PAUSE)
    assert machine.event(E.STARTED) is S.PAUSED
    assert machine.command(C.UNPAUSE) is S.RUNNING


def test_the_reason_tells_what_to_do() -> None:
    with pytest.raises(InvalidTransition, match="unpause it, or stop it"):
        machine_in(S.PAUSED).command(C.PAUSE)
    with pytest.raises(InvalidTransition, match="start another run"):
        machine_in(S.FINISHED).command(C.SET)


def test_the_tables_know_every_state() -> None:
    assert set(COMMANDS) == set(EVENTS) == set(RunState)
