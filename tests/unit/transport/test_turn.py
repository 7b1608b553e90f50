"""Peers take turns to send what is long, where the link is what they wait for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from tests.unit.worker.support import until
from tos_notebook.transport.turn import FIRST, LONG, SLOW, Turn

PATIENT = 60.0


class Clock:
    """Each look at it takes so many seconds."""

    def __init__(self) -> None:
        self.now, self.pace = 0.0, 0.1

    def __call__(self) -> float:
        self.now += self.pace
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def turn(clock: Clock) -> Turn:
    return Turn(clock)


@contextmanager
def another(turn: Turn) -> Iterator[threading.Event]:
    """Let another thread send something long; yield what is set once it may."""
    began = threading.Event()

    def send() -> None:
        with turn.taken(LONG):
            began.set()

    thread = threading.Thread(target=send)
    with ExitStack() as stack:
        stack.callback(thread.join)
        thread.start()
        yield began


def test_a_second_peer_sends_once_the_first_has_sent_all(turn: Turn) -> None:
    with ExitStack() as first:
        first.enter_context(turn.taken(LONG))
        with another(turn) as began:
            assert not began.wait(0.05)
            first.close()
            assert began.wait(PATIENT)


def test_a_peer_that_has_stalled_loses_its_turn(turn: Turn, clock: Clock) -> None:
    with ExitStack() as stalled:
        stalled.enter_context(turn.taken(LONG))
        clock.now += FIRST
        with ExitStack() as second:
            second.enter_context(turn.taken(LONG))
            with another(turn) as began:
                # That it ends by and by does not take the turn from the peer that has it by then.
                stalled.close()
                assert not began.wait(0.05)
                second.close()


def test_a_slow_peer_keeps_its_turn_for_twice_as_long_as_others_take(
    turn: Turn, clock: Clock
) -> None:
    with turn.taken(LONG):
        clock.now += 3
    for passed, waits in ((5, True), (9, False)):
        with ExitStack() as slow:
            slow.enter_context(turn.taken(LONG))
            clock.now += passed
            with another(turn) as began:
                assert began.wait(0.05 if waits else PATIENT) is not waits
                slow.close()


def test_a_transfer_that_fails_says_nothing_of_the_link(turn: Turn, clock: Clock) -> None:
    """A worker that dies after the head of its message would seem to send without end."""
    clock.pace = 0.0
    with pytest.raises(ZeroDivisionError), turn.taken(LONG):
        raise ZeroDivisionError
    with ExitStack() as first:
        first.enter_context(turn.taken(LONG))
        with another(turn) as began:
            assert not began.wait(0.05)
            first.close()


def test_no_peer_waits_for_longer_than_its_patience_whatever_others_take(clock: Clock) -> None:
    """A peer that sends nothing for a minute is taken for gone."""
    turn = Turn(clock, patience=0.05)
    with turn.taken(LONG):
        clock.now += 1000
    with turn.taken(LONG), another(turn) as one, another(turn) as other:
        # The time of the first is not over by then.
        assert one.wait(PATIENT)
        assert other.wait(PATIENT)


def test_peers_send_in_the_order_in_which_they_came(turn: Turn, clock: Clock) -> None:
    clock.pace = 0.0
    order: list[int] = []

    def send(number: int) -> None:
        with turn.taken(LONG):
            order.append(number)

    def waiting(count: int) -> bool:
        return len(turn) == count

    with ExitStack() as first:
        first.enter_context(turn.taken(LONG))
        threads = [threading.Thread(target=send, args=(number,)) for number in range(5)]
        for count, thread in enumerate(threads, 1):
            thread.start()
            until(partial(waiting, count))
        clock.now += 1
        first.close()
        for thread in threads:
            thread.join()
    assert order == [0, 1, 2, 3, 4]


def test_what_is_short_does_not_wait(turn: Turn) -> None:
    with turn.taken(LONG), turn.taken(LONG - 1):
        pass


def test_peers_of_a_fast_link_send_at_the_same_time_until_it_is_slow(
    turn: Turn, clock: Clock
) -> None:
    """One thread cannot decrypt as fast as a fast link brings bytes."""
    clock.pace = 0.0
    with turn.taken(LONG):
        clock.now += 0.9 * LONG / SLOW
    with turn.taken(LONG), another(turn) as began:
        assert began.wait(PATIENT)
        clock.now += 1.1 * LONG / SLOW
    with ExitStack() as first:
        first.enter_context(turn.taken(LONG))
        with another(turn) as began:
            assert not began.wait(0.05)
            first.close()
