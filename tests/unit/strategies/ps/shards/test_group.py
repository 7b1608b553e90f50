"""The driver's side of shards: orders to all, answers of all, and an error when one is lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from tests.support.threads import Aside
from tos_notebook.errors import (
    CombinerError,
    RemoteProtocolError,
    SessionClosed,
    TosError,
    WaitTimeout,
)
from tos_notebook.strategies.ps.shards.group import Group, Seat
from tos_notebook.wire.messages import Done, Order, Serving

LIMIT = 10.0


def _serving(number: int) -> Serving:
    return Serving("token", number, "127.0.0.1", 4000 + number, "", 1)


def _ask(seat: Seat, order: int = 0, error: tuple[str, str] = ("", "")) -> Order:
    answer, _ = seat.handle(Done(order, 7, *error), None)
    assert isinstance(answer, Order)
    return answer


class Shards:
    """A group of two, and what it says of a loss."""

    def __init__(self) -> None:
        self.lost: list[TosError] = []
        self.group = Group(2, self.lost.append)
        self.messages = [_serving(number) for number in range(2)]
        self.seats = [self.group.seat(message) for message in self.messages]

    def command(self, timeout: float = LIMIT) -> Callable[[], object]:
        """Give an order that both have taken; return what returns its answers."""
        told = Aside(partial(self.group.command, "copy", [None, None], timeout))
        for seat, message in zip(self.seats, self.messages, strict=True):
            answer, _ = seat.handle(message, None)
            while answer == Order(0, "wait"):
                answer, _ = seat.handle(Done(0, 7, "", ""), None)
            assert answer == Order(1, "copy")
        return told.result


def test_an_order_reaches_all_and_returns_what_each_answers() -> None:
    shards = Shards()
    assert shards.group.wait(LIMIT, lambda: True)
    result = shards.command()
    for seat in shards.seats:
        assert _ask(seat, order=1) == Order(0, "wait")
    assert result() == [(7, None), (7, None)]
    assert not shards.lost


def test_one_that_is_lost_ends_the_wait_for_all() -> None:
    shards = Shards()
    result = shards.command()
    shards.seats[1].closed(OSError("reset"))
    with pytest.raises(TosError, match="Shard 2 of the parameters was lost: reset"):
        result()
    assert len(shards.lost) == 1
    assert _ask(shards.seats[0]) == Order(0, "end")


def test_one_that_does_not_answer_is_named() -> None:
    shards = Shards()
    result = shards.command(timeout=0.2)
    _ask(shards.seats[0], order=1)
    with pytest.raises(WaitTimeout, match="shard 2 did not"):
        result()


def test_what_one_could_not_do_is_raised_in_the_driver() -> None:
    shards = Shards()
    result = shards.command()
    _ask(shards.seats[0], order=1)
    _ask(shards.seats[1], order=1, error=("CombinerError", "it diverges"))
    with pytest.raises(CombinerError, match="it diverges"):
        result()


def test_an_update_that_could_not_be_merged_is_told_without_an_order() -> None:
    shards = Shards()
    assert _ask(shards.seats[0], error=("CombinerError", "it diverges")) == Order(0, "end")
    assert [str(error) for error in shards.lost] == ["it diverges"]


def test_none_comes_twice_nor_too_late() -> None:
    shards = Shards()
    for number in (0, 2):
        with pytest.raises(SessionClosed, match=f"No shard {number} is expected"):
            shards.group.seat(_serving(number))


def test_a_payload_comes_only_when_it_was_asked_for() -> None:
    shards = Shards()
    with pytest.raises(RemoteProtocolError, match="expected a payload of 0 bytes, got 8"):
        shards.seats[0].receive_into(Done(0, 7, "", ""), 8)
    told = Aside(partial(shards.group.command, "send", [np.zeros(1, np.uint8)] * 2, LIMIT))
    for seat, message in zip(shards.seats, shards.messages, strict=True):
        answer, _ = seat.handle(message, None)
        while answer == Order(0, "wait"):
            answer, _ = seat.handle(Done(0, 7, "", ""), None)
        done = Done(1, 7, "", "")
        view = seat.receive_into(done, 8)
        assert view is not None
        view[:] = b"abcdefgh"
        seat.handle(done, view)
    answers = told.result()
    assert [bytes(payload) for _, payload in answers] == [b"abcdefgh"] * 2


def test_a_group_that_is_not_complete_stops_waiting_with_the_run() -> None:
    group = Group(2, lambda error: None)
    assert not group.wait(LIMIT, lambda: False)
    assert group.come == 0
