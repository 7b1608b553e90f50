from __future__ import annotations

import threading

from tos_notebook.widgets.pump import INTERVAL, Pump

LIMIT = 10.0


class Gate:
    """Waits until it is opened, once for each opening; notes for how long it was to wait."""

    def __init__(self) -> None:
        self.openings = threading.Semaphore(0)
        self.waited: list[float] = []
        self.reached = threading.Semaphore(0)

    def __call__(self, asked: threading.Event, seconds: float) -> None:
        self.waited.append(seconds)
        self.reached.release()
        assert self.openings.acquire(timeout=LIMIT)


class Fed:
    def __init__(self, ticks: int) -> None:
        self.left = ticks
        self.times: list[float] = []
        self.thread: threading.Thread | None = None
        self.done = threading.Event()

    def tick(self, now: float) -> bool:
        self.times.append(now)
        self.thread = threading.current_thread()
        self.left -= 1
        if self.left <= 0:
            self.done.set()
        return self.left > 0


class Broken(Fed):
    def tick(self, now: float) -> bool:
        super().tick(now)
        raise OSError("the connection is gone")


def ended(fed: Fed) -> bool:
    assert fed.done.wait(LIMIT)
    assert fed.thread is not None
    fed.thread.join(LIMIT)
    return not fed.thread.is_alive()


def test_it_ticks_until_nothing_is_left_and_then_its_thread_ends() -> None:
    gate = Gate()
    pump = Pump(clock=lambda: 5.0, wait=gate)
    fed = Fed(3)
    pump.add(fed)
    for _ in range(2):
        assert gate.reached.acquire(timeout=LIMIT)
        gate.openings.release()
    assert ended(fed)
    assert fed.times == [5.0] * 3
    assert gate.waited == [INTERVAL] * 2


def test_one_thread_feeds_all() -> None:
    gate = Gate()
    pump = Pump(wait=gate)
    first, second = Fed(2), Fed(1)
    pump.add(first)
    assert gate.reached.acquire(timeout=LIMIT)
    pump.add(second)
    gate.openings.release()
    assert ended(first)
    assert ended(second)
    assert first.thread is second.thread


def test_it_begins_anew_after_its_end() -> None:
    pump = Pump(wait=Gate())
    fed = Fed(1)
    pump.add(fed)
    assert ended(fed)
    fed.done.clear()
    pump.add(fed)
    assert ended(fed)
    assert len(fed.times) == 2


def test_who_asks_is_served_at_once() -> None:
    def until_asked(asked: threading.Event, seconds: float) -> None:
        assert asked.wait(LIMIT)

    pump = Pump(wait=until_asked)
    first, second = Fed(2), Fed(1)
    pump.add(first)
    pump.add(second)
    assert ended(first)
    assert ended(second)


def test_a_broken_view_does_not_keep_the_others_from_their_feed() -> None:
    gate = Gate()
    pump = Pump(wait=gate)
    broken, fed = Broken(5), Fed(2)
    pump.add(fed)
    assert gate.reached.acquire(timeout=LIMIT)
    pump.add(broken)
    gate.openings.release()
    assert ended(fed)
    assert len(broken.times) == 1


def test_a_request_during_the_last_tick_is_not_lost() -> None:
    pump = Pump(wait=lambda *_: None)

    class Late(Fed):
        def tick(self, now: float) -> bool:
            if self.left == 2:
                # As a hello that comes while the last state is being sent.
                pump.add(self)
            super().tick(now)
            return False

    fed = Late(2)
    pump.add(fed)
    assert ended(fed)
    assert len(fed.times) == 2
