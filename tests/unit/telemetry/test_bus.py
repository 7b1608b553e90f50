from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from tests.unit.telemetry.samples import milestone
from tos_notebook.errors import SessionClosed, WaitTimeout
from tos_notebook.events import Event
from tos_notebook.telemetry.bus import SINK_NAME, THREAD_NAME, EventBus

PATIENCE = 10.0


class Recorder:
    """A sink that notes what it gets and on which thread."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.threads: set[str] = set()
        self.closed = 0

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self.threads.add(threading.current_thread().name)

    def close(self) -> None:
        self.closed += 1
        self.threads.add(threading.current_thread().name)


class Gate:
    """A sink that is stuck until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()

    def __call__(self, event: Event) -> None:
        assert self.open.wait(PATIENCE)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    assert not {THREAD_NAME, SINK_NAME} & {thread.name for thread in threading.enumerate()}


def events(count: int) -> list[Event]:
    return [milestone(sequence=n) for n in range(count)]


def test_every_sink_gets_every_event_in_order_on_the_bus_thread() -> None:
    first, second = Recorder(), Recorder()
    published = events(200)
    with EventBus([first, second]) as bus:
        for event in published:
            bus.publish(event)
        bus.flush(PATIENCE)
        assert first.events == second.events == published
    assert first.threads == second.threads == {THREAD_NAME}


def test_close_delivers_what_is_queued_and_closes_each_sink_once() -> None:
    recorder, plain = Recorder(), list[Event]()
    bus = EventBus([recorder, plain.append])
    for event in events(50):
        bus.publish(event)
    bus.close(PATIENCE)
    bus.close(PATIENCE)
    assert len(recorder.events) == len(plain) == 50
    assert recorder.closed == 1


def test_an_event_after_close_is_refused_not_lost() -> None:
    recorder = Recorder()
    bus = EventBus([recorder])
    bus.close(PATIENCE)
    with pytest.raises(SessionClosed, match="MilestoneCommitted after close"):
        bus.publish(milestone())
    assert recorder.events == []


def test_flush_after_close_has_nothing_to_wait_for() -> None:
    bus = EventBus([])
    bus.close(PATIENCE)
    bus.flush(PATIENCE)


def test_publish_does_not_wait_for_a_stuck_sink_and_flush_names_the_wait() -> None:
    gate = Gate()
    with EventBus([gate]) as bus:
        for event in events(100):
            bus.publish(event)
        with pytest.raises(WaitTimeout, match="still queued"):
            bus.flush(timeout=0.01)
        with pytest.raises(WaitTimeout, match=r"within 0\.01 s"):
            bus.close(timeout=0.01)
        gate.open.set()


def test_a_sink_that_raises_is_disabled_and_reported_once_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[Event] = []
    error = ValueError("disk full")

    def broken(event: Event) -> None:
        calls.append(event)
        raise error

    recorder = Recorder()
    with caplog.at_level(logging.WARNING), EventBus([broken, recorder]) as bus:
        for event in events(5):
            bus.publish(event)
        bus.flush(PATIENCE)
    assert len(calls) == 1
    assert len(recorder.events) == 5
    assert [(d.sink, d.error) for d in bus.disabled] == [(broken, error)]
    assert caplog.text.count("disk full") == 1


def test_a_sink_that_raises_when_closed_is_reported_and_the_others_are_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stubborn(Recorder):
        def close(self) -> None:
            raise OSError("cannot close")

    stubborn, recorder = Stubborn(), Recorder()
    with caplog.at_level(logging.WARNING), EventBus([stubborn, recorder]) as bus:
        pass
    assert recorder.closed == 1
    assert [d.sink for d in bus.disabled] == [stubborn]
    assert "cannot close" in caplog.text


def test_a_disabled_sink_is_still_closed() -> None:
    class Broken(Recorder):
        def __call__(self, event: Event) -> None:
            raise ValueError

    broken = Broken()
    with EventBus([broken]) as bus:
        bus.publish(milestone())
    assert broken.closed == 1


def test_publishers_on_many_threads_lose_no_event_and_keep_their_own_order() -> None:
    recorder = Recorder()
    with EventBus([recorder]) as bus:

        def publish(partition: int) -> None:
            for n in range(100):
                bus.publish(milestone(partition=partition, sequence=n))

        threads = [threading.Thread(target=publish, args=(p,)) for p in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    seen: dict[int, list[int]] = {}
    for event in recorder.events:
        seen.setdefault(event.partition, []).append(event.sequence)
    assert seen == {p: list(range(100)) for p in range(4)}


def test_a_stuck_sink_apart_delays_neither_the_others_nor_a_flush() -> None:
    gate, counts, another = Gate(), Recorder(), Recorder()
    published = events(100)
    with EventBus([counts], apart=[gate, another]) as bus:
        for event in published:
            bus.publish(event)
        bus.flush(PATIENCE)
        assert counts.events == published
        with pytest.raises(WaitTimeout, match=r"within 0\.01 s; still busy: .*Gate"):
            bus.close(timeout=0.01)
        gate.open.set()
    assert another.events == published
    assert another.closed == 1
    assert another.threads == {SINK_NAME}


def test_a_sink_too_far_behind_has_all_events_up_to_a_moment_and_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stuck(Recorder):
        begun, open = threading.Event(), threading.Event()

        def __call__(self, event: Event) -> None:
            super().__call__(event)
            self.begun.set()
            assert self.open.wait(PATIENCE)

    stuck, published = Stuck(), events(20)
    with caplog.at_level(logging.WARNING), EventBus([], apart=[stuck], bound=5) as bus:
        bus.publish(published[0])
        assert stuck.begun.wait(PATIENCE)
        for event in published[1:]:
            bus.publish(event)
        bus.flush(PATIENCE)
        (told,) = bus.disabled
        assert told.sink is stuck
        assert "gets no more events: WaitTimeout: 5 events wait for it" in str(told)
        stuck.open.set()
    assert stuck.events == published[:6]
    assert stuck.closed == 1
    assert caplog.text.count("gets no more events") == 1


def test_a_sink_apart_that_raises_gets_no_more_is_closed_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Recorder):
        def __call__(self, event: Event) -> None:
            super().__call__(event)
            raise ValueError("no such host")

    broken = Broken()
    with caplog.at_level(logging.WARNING), EventBus([], apart=[broken]) as bus:
        for event in events(5):
            bus.publish(event)
    assert (len(broken.events), broken.closed) == (1, 1)
    assert [told.sink for told in bus.disabled] == [broken]
    assert caplog.text.count("gets no more events") == 1


def test_the_bus_knows_the_threads_of_its_sinks() -> None:
    found: list[bool] = []
    with EventBus([lambda event: found.append(bus.is_current_thread)]) as bus:
        bus.add(lambda event: found.append(bus.is_current_thread), apart=True)
        assert bus.is_current_thread is False
        bus.publish(milestone())
    assert found == [True, True]


def test_a_sink_added_after_the_end_has_no_thread() -> None:
    bus = EventBus([])
    bus.close(PATIENCE)
    bus.add(Recorder(), apart=True)
    assert bus.sinks == ()
