"""The lock of a run: who takes it finds all counted, and keeps the fast path out meanwhile."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tos_notebook.common.interrupts import HeldBack
from tos_notebook.coordination.run_lock import RunLock
from tos_notebook.errors import SessionClosed


class FakePath:
    """Notes one push whenever it may, and what it is told."""

    version = raised = 0
    settle: Any = None

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.noted: list[Any] = []

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self, changed: bool) -> None:
        self.told.append(changed)

    def hold(self) -> None:
        self.told.append("hold")

    def take(self) -> list[Any]:
        noted, self.noted = self.noted, []
        return noted


@pytest.fixture
def path() -> Any:
    return FakePath()


@pytest.fixture
def counted() -> list[Any]:
    return []


@pytest.fixture
def lock(path: Any, counted: list[Any]) -> RunLock:
    made = RunLock()
    made.follow(path, lambda take: counted.extend(take()))
    path.told.clear()
    return made


def test_what_was_noted_is_counted_before_the_lock_is_got(
    lock: RunLock, path: Any, counted: list[Any]
) -> None:
    path.noted = ["one", "two"]
    with lock:
        assert counted == ["one", "two"]


def test_the_path_is_kept_out_until_the_outermost_holder_leaves(lock: RunLock, path: Any) -> None:
    with lock:
        with lock, lock.unchanged():
            pass
        assert path.told == ["pause"]
    assert path.told == ["pause", True]


def test_who_changes_nothing_leaves_what_was_agreed_in_force(lock: RunLock, path: Any) -> None:
    with lock.unchanged():
        pass
    assert path.told == ["pause", False]


def test_a_change_within_is_one_all_the_same(lock: RunLock, path: Any) -> None:
    with lock.unchanged(), lock:
        pass
    with lock.unchanged():
        lock.changed = True
    assert path.told == ["pause", True] * 2


def test_an_error_gives_the_lock_back(lock: RunLock, path: Any) -> None:
    for held in (lock, lock.unchanged()):
        with pytest.raises(ValueError, match="mine"), held:
            raise ValueError("mine")
    assert path.told == ["pause", True, "pause", False]
    assert lock.acquire(blocking=False)
    lock.release()


def test_a_condition_lets_pushes_in_while_it_waits(
    lock: RunLock, path: Any, counted: list[Any]
) -> None:
    changed = threading.Condition(lock)  # type: ignore[arg-type]

    def push() -> None:
        path.noted.append("pushed")
        with lock:
            changed.notify_all()

    thread = threading.Thread(target=push)
    with changed, lock:
        thread.start()
        assert changed.wait_for(lambda: bool(counted), 10)
        assert path.told[-1] == "pause"
    thread.join()
    assert counted == ["pushed"]
    assert path.told.count("pause") == len(path.told) / 2


def test_another_thread_waits(lock: RunLock) -> None:
    got: list[bool] = []
    with lock:
        thread = threading.Thread(target=lambda: got.append(lock.acquire(timeout=0.001)))
        thread.start()
        thread.join()
    assert got == [False]


def test_what_is_due_is_counted_while_more_may_come(
    lock: RunLock, path: Any, counted: list[Any]
) -> None:
    path.noted = ["one"]
    path.settle()
    assert (counted, path.told) == (["one"], [])


@pytest.mark.parametrize("error", [SessionClosed("The run is over."), MemoryError("full")])
def test_a_count_that_fails_leaves_no_lock_behind(path: Any, error: Exception) -> None:
    lock = RunLock()

    def over(take: Callable[[], Any]) -> None:
        raise error

    lock.follow(path, over)
    path.noted = ["late"]
    with lock:
        pass
    assert path.told == ["pause", True] * 2


@pytest.mark.parametrize("held", [False, True])
def test_another_path_takes_over_once_all_of_the_first_is_counted(
    lock: RunLock, path: Any, counted: list[Any], held: bool
) -> None:
    """As when another strategy trains from now on."""
    other = FakePath()
    path.noted = ["of the first"]
    if held:
        with lock:
            lock.follow(other, lambda take: counted.extend(take()))
    else:
        lock.follow(other, lambda take: counted.extend(take()))
    assert counted == ["of the first"]
    assert (path.told, other.told) == (["pause", "hold", True], ["pause", True])
    with lock:
        pass
    assert (path.told, other.told) == (["pause", "hold", True], ["pause", True] * 2)


@pytest.fixture
def interrupts() -> Iterator[Callable[[], None]]:
    """Return what presses Ctrl-C, as the terminal does: the main thread gets it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def free(lock: RunLock) -> bool:
    """Whether another thread gets the lock."""
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(lock.acquire(blocking=False)))
    thread.start()
    thread.join()
    return got == [True]


def test_ctrl_c_comes_after_a_count_and_leaves_no_lock_behind(
    path: Any, interrupts: Callable[[], None]
) -> None:
    lock, counted = RunLock(), list[Any]()

    def settle(take: Callable[[], Any]) -> None:
        notes = take()
        if notes:
            interrupts()
        counted.extend(notes)

    lock.follow(path, settle)
    path.noted = ["one", "two"]
    with pytest.raises(KeyboardInterrupt):
        lock.acquire()
    assert counted == ["one", "two"]
    assert path.told == ["pause", True] * 2
    assert free(lock)


def test_ctrl_c_ends_a_wait_and_leaves_no_lock_behind(
    path: Any, interrupts: Callable[[], None]
) -> None:
    lock, reached = RunLock(), list[str]()
    changed = threading.Condition(lock)  # type: ignore[arg-type]
    lock.follow(path, lambda take: None)

    def wait() -> None:
        with changed:
            path.resume = lambda changed: interrupts()
            reached.append("waits")
            changed.wait(10)
            reached.append("continues")

    with pytest.raises(KeyboardInterrupt):
        wait()
    assert reached == ["waits"]
    path.resume = lambda changed: None
    assert free(lock)


def test_ctrl_c_is_for_the_main_thread_only(interrupts: Callable[[], None]) -> None:
    held: list[Any] = []

    def hold() -> None:
        with HeldBack():
            held.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    assert held == [signal.default_int_handler]

    def press() -> None:
        with HeldBack(), HeldBack():
            interrupts()
            held.append("held back")

    with pytest.raises(KeyboardInterrupt):
        press()
    assert held[-1] == "held back"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_same_path_may_be_followed_again(lock: RunLock, path: Any, counted: list[Any]) -> None:
    lock.follow(path, lambda take: counted.extend(take()))
    assert path.told == ["pause", True]
