"""The parameters of a run in a task are read in letters, of which none is left."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.mail import Views
from tests.unit.training.test_deployed import Trained
from tos_notebook.cluster.remote.mailbox import LARGEST, Mailbox
from tos_notebook.common.threads import in_thread
from tos_notebook.errors import InvalidTransition
from tos_notebook.training.deployed.driver import Outbox, Served
from tos_notebook.training.deployed.follower import Follower

NBYTES = 2 * LARGEST + 5


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters are exchanged at once."""
    for name in ("BUSY", "IDLE"):
        monkeypatch.setattr(f"tos_notebook.training.deployed.follower.{name}", 0.0)


class Played:
    """A task that serves a run, and the follower of it."""

    def __init__(self) -> None:
        self.views = Views()
        self.run: Any = Trained()
        versions = iter(range(1, 100))
        lock = threading.Lock()

        def values() -> tuple[Any, int]:
            with lock:
                version = next(versions)
            return np.full(NBYTES, version, np.uint8), version

        self.run.parts.training.parameters = SimpleNamespace(read=values)
        self.served = Served(self.run, Mailbox(self.views, "tos_1"), Outbox())
        self.follower = Follower(Mailbox(self.views, "tos_1"), Future())

    def turn(self) -> None:
        """Exchange one letter in each direction."""
        self.follower._poll(lambda event: None)
        self.served.look()
        for made in self.served._made.values():
            made.result(10)

    @property
    def parts(self) -> list[str]:
        """Names of the letters with parameters."""
        return [name for name in self.views.stored if "part" in name]


def test_readers_at_one_time_do_not_mix_and_leave_no_letter() -> None:
    played = Played()
    found = [in_thread("tos-reader", played.follower.parameters) for _ in range(3)]
    while not all(each.done() for each in found):
        played.turn()
    for each in found:
        content, version = each.result()
        assert content == bytes([version]) * NBYTES
    assert played.parts == []


def test_a_read_is_given_up_when_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last parameters come with the task's result."""
    played = Played()
    follower = played.follower
    found = in_thread("tos-reader", follower.parameters)
    get = follower._mail.get

    def ending(name: str) -> bytes | None:
        if "part" in name:
            follower.refuse_calls()
        return get(name)

    monkeypatch.setattr(follower._mail, "get", ending)
    while not found.done():
        played.turn()
    assert isinstance(found.exception(), InvalidTransition)
    assert played.parts == []


@pytest.mark.parametrize("late", [False, True])
def test_letters_of_a_read_that_is_interrupted_go_at_the_end(
    monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """It may be interrupted before the answer, or between two letters."""
    played = Played()
    follower = played.follower

    def interrupted(*given: Any) -> Any:
        raise KeyboardInterrupt

    def awaited(call: Any, answer: Future[Any], timeout: float) -> Any:
        while not answer.done():
            played.turn()
        monkeypatch.setattr(follower._mail, "get", interrupted)
        return answer.result()

    monkeypatch.setattr(follower, "_awaited", awaited if late else interrupted)
    with pytest.raises(KeyboardInterrupt):
        follower.parameters()
    if not late:
        played.turn()
        assert len(played.parts) == 3
    follower.forget()
    assert played.views.stored == {}
