"""Following a run whose server is in a Spark task: letters are bounded data, and each call counts.

The session's views are in memory; a thread plays the task.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.mail import Views
from tos_notebook import chaos
from tos_notebook.blocks.skips import Skipped
from tos_notebook.cluster.remote.mailbox import LARGEST, Mailbox
from tos_notebook.common.histogram import Histogram
from tos_notebook.errors import (
    ConfigError,
    ConnectError,
    InvalidTransition,
    RemoteProtocolError,
    TosError,
    WaitTimeout,
    WorkerError,
)
from tos_notebook.events import Event, StateChanged, Validated, WeightsMeasured
from tos_notebook.steering.links import LinkRate, LinkRates
from tos_notebook.steering.status import CheckpointStatus, RunStatus
from tos_notebook.training.deployed.driver import Outbox, Served
from tos_notebook.training.deployed.follower import Follower, joined
from tos_notebook.training.deployed.letters import (
    DOWN,
    EVENTS,
    UP,
    Answer,
    Asked,
    Call,
    Told,
    made,
    plain,
    raised,
    read,
    said,
    written,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    assert made(json.loads(json.dumps(plain(value)))) == value


def test_status_events_and_rules_come_back_as_they_were() -> None:
    status = RunStatus(
        *("run-1", "running", 1, 3, 7, 70, 3.5, 0.25, 0.0, 2.0),
        metrics={"accuracy": 0.5},
        checkpoint=CheckpointStatus(1, 2.0),
        links=LinkRates((LinkRate(0, 1, 2.0),), 3),
    )
    rules = (chaos.Slow(5, worker=1), chaos.Kill(any=2), chaos.Pause(0.1))
    facts = {"status": status, "rules": rules}
    event = Validated(1.0, 2, 30, {"loss": math.inf})
    found = read(written(Told(1, 0, (event,), facts=facts)), Told)
    assert (found.facts, found.events) == (facts, (event,))
    measured = WeightsMeasured(1.0, 2, {"w": Histogram(np.ones(2), np.arange(3.0))}, {})
    (again,) = read(written(Told(1, 0, (measured,))), Told).events
    np.testing.assert_array_equal(again.weights["w"].edges, np.arange(3.0))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04K\x01.",
        b"[]",
        b"{}",
        b'{"made": ["Asked", {}]}',
        b'{"made": ["Asked", {"beat": 1, "seen": 0, "calls": [1]}]}',
        b'{"made": ["Asked", {"beat": 1, "seen": 0, "other": 1}]}',
        b'{"made": ["Path", {}]}',
        b'{"made": ["Told", {"beat": 1, "first": 0}]}',
        b'{"eval": ["1"]}',
        b'{"made": ["Slow", {"factor": -1}]}',
        b'{"tuple": ' * 5000 + b"1" + b"}" * 5000,
        bytes(LARGEST + 1),
    ],
)
def test_what_is_no_letter_is_refused(content: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read(content, Asked)


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("sync: expected one"),
        InvalidTransition("paused", "pause", "it waits."),
        WorkerError("ValueError: x", "1", "host", 2, 0, ["line"]),
        ValueError("of Python's"),
    ],
)
def test_an_error_comes_back_with_its_text_and_kind(error: Exception) -> None:
    answer = read(written(Told(1, 0, answers=(said(1, error),))), Told).answers[0]
    found = raised(answer)
    expected = type(error) if isinstance(error, ConfigError | InvalidTransition) else TosError
    assert type(found) is expected
    assert str(error).splitlines()[0] in str(found)


def test_a_name_that_is_none_of_our_errors_raises_a_plain_one() -> None:
    assert type(raised(Answer(1, None, "SystemExit", (3,)))) is TosError


@given(
    st.sampled_from("x語\x00"),
    st.lists(st.integers(0, EVENTS // 24), max_size=24),
    st.lists(st.booleans(), max_size=9),
)
def test_events_are_told_in_order_each_once_and_in_bounded_letters(
    letter: str, sizes: list[int], lost: list[bool]
) -> None:
    """A letter may be replaced before it is read; what was not seen comes again."""
    outbox = Outbox()
    taken: list[Event] = []
    for number, size in enumerate(sizes):
        outbox(StateChanged(float(number), letter * size))
    more = True
    while more:
        first, events, more = outbox.take(len(taken))
        assert len(written(Told(1, first, events))) <= LARGEST
        assert first == len(taken)
        if lost and lost.pop():
            more = True
        else:
            taken += events
    assert [event.time for event in taken] == list(range(len(sizes)))


def test_an_event_that_no_letter_could_hold_is_left_out_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outbox = Outbox()
    outbox(StateChanged(1.0, "語" * (EVENTS // 6)))
    outbox(StateChanged(2.0, "running"))
    assert "not told of a StateChanged" in caplog.text
    assert outbox.take(0) == (0, (StateChanged(2.0, "running"),), False)


def test_what_a_resumed_run_did_before_comes_first() -> None:
    outbox = Outbox()
    outbox(StateChanged(3.0, "running"))
    outbox.begin_with([StateChanged(1.0, "running"), StateChanged(2.0, "stopped")])
    assert [event.time for event in outbox.take(0)[1]] == [1.0, 2.0, 3.0]
    assert outbox.past == 2


class Task:
    """Plays the Spark task: answers the letters of a follower.

    Parameters
    ----------
    views : Views
    """

    def __init__(self, views: Views) -> None:
        self.mail = Mailbox(views, "tos_1")
        self.job: Future[list[bytes]] = Future()
        self.follower = Follower(self.mail, self.job, silent=0.5)
        self.events: list[Event] = []
        self.ended: Future[TosError | None] = Future()

    def tell(self, beat: int, **letter: Any) -> None:
        letter = {"first": 0, "facts": {"ended": False, "uri": "file:/runs/r"}} | letter
        self.mail.put(DOWN, written(Told(beat, **letter)))

    def begin(self) -> None:
        self.follower.begin("r", self.events.append, lambda _, error: self.ended.set_result(error))

    def asked(self) -> Asked:
        content = self.mail.get(UP)
        assert content is not None
        found: Asked = read(content, Asked)
        return found


def test_the_follower_tells_each_event_once_and_returns_at_the_runs_end() -> None:
    task = Task(Views())
    events = (StateChanged(1.0, "running"), StateChanged(2.0, "finished"))
    task.tell(1, events=events, facts={"ended": True, "state": "finished"})
    task.begin()
    while task.follower._seen < len(events):
        task.follower._wake.set()
    task.tell(2, first=2, facts={"ended": True, "state": "finished"})
    task.job.set_result([])
    task.follower._wake.set()
    assert task.ended.result(10) is None
    assert task.events == list(events)
    assert task.asked().seen == 2


def test_a_call_is_answered_by_its_value_or_its_error() -> None:
    task = Task(Views())
    wrong = said(2, ConfigError("sync: expected asp"))
    task.tell(1, answers=(Answer(1, "ps"), wrong))
    task.follower._calls = {}
    futures: list[Future[Any]] = [Future(), Future()]
    for number, future in enumerate(futures, 1):
        task.follower._calls[number] = Call(number, "set", {}, "Python"), future
    task.begin()
    assert futures[0].result(10) == "ps"
    with pytest.raises(ConfigError, match="expected asp"):
        futures[1].result(10)
    task.job.set_exception(ConnectError("over"))
    task.follower._wake.set()
    task.ended.result(10)


def test_a_lost_task_ends_the_run_with_its_checkpoints_and_how_to_continue() -> None:
    task = Task(Views())
    task.tell(1)
    task.begin()
    task.job.set_exception(ConnectError("ExecutorLostFailure"))
    task.follower._wake.set()
    error = task.ended.result(10)
    assert isinstance(error, ConnectError)
    for part in ("ExecutorLostFailure", "file:/runs/r", "tos.resume('file:/runs/r'"):
        assert part in str(error)


def test_a_call_after_the_task_was_lost_is_refused_at_once() -> None:
    task = Task(Views())
    task.tell(1, facts={"ended": False, "uri": None, "state": "running"})
    task.begin()
    task.job.set_exception(ConnectError("ExecutorLostFailure"))
    task.follower._wake.set()
    task.ended.result(10)
    task.follower._thread.join(10)
    with pytest.raises(InvalidTransition, match=r"has ended\. It had no checkpoints"):
        task.follower.call("parameters")


def test_a_silent_task_ends_the_run() -> None:
    task = Task(Views())
    task.tell(1)
    task.begin()
    error = task.ended.result(10)
    assert "no letter came for 0.5 s" in str(error)


def test_parameters_of_another_length_are_refused() -> None:
    assert joined([], 4) is None
    assert joined([b"ab", b"cd"], 4) is not None
    with pytest.raises(RemoteProtocolError, match="4 bytes of parameters, got 3"):
        joined([b"abc"], 4)


class Trained:
    """A run, as the task with its server sees it."""

    def __init__(self) -> None:
        self.active, self.state, self.uri, self.run_id = True, "running", None, "r"
        self.stopped = threading.Event()
        self.status = self.settings = None
        self.stalls = self.skipped = self.shards = self.commands = ()
        self.validates, self.slots = False, 1
        training = SimpleNamespace(error=None, run_id="r")
        self.parts = SimpleNamespace(training=training)
        source = SimpleNamespace(partitions=2)
        self.lifecycle = SimpleNamespace(epochs=SimpleNamespace(source=source), workers=0)
        self.program = SimpleNamespace(gradients=False)
        self.asked: list[Any] = []

    def stop(self, reason: str | None = None) -> None:
        self.reason, self.active, self.state = reason, False, "stopped"
        self.stopped.set()

    def set(self, **settings: Any) -> None:
        self.asked.append(settings)


def test_a_run_whose_notebook_is_gone_stops() -> None:
    run: Any = Trained()
    Served(run, Mailbox(Views(), "tos_1"), Outbox(), alone=0.0).until_end()
    assert run.stopped.wait(10)
    assert run.reason == "the notebook has not asked for 0 s"


def test_each_call_is_made_once_and_others_than_commands_are_refused() -> None:
    run: Any = Trained()
    mail = Mailbox(Views(), "tos_1")
    calls = (
        Call(1, "set", {"sync": "bsp"}, "Python"),
        Call(2, "__class__", {}, "Python"),
        Call(3, "add_sink", {"sink": "x"}, "Python"),
    )
    served = Served(run, mail, Outbox())
    answers: dict[int, Answer] = {}
    beat = 0
    while len(answers) < len(calls):
        beat += 1
        mail.put(UP, written(Asked(beat, 0, calls)))
        assert served.look()
        told = read(mail.get(DOWN) or b"", Told)
        answers |= {answer.number: answer for answer in told.answers}
    assert run.asked == [{"sync": "bsp"}]
    assert answers[1].error == ""
    assert answers[2].error == answers[3].error == "ConfigError"
    run.stop()
    mail.put(UP, written(Asked(beat + 1, 0)))
    assert not served.look()


def test_calls_are_made_in_whatever_order_a_letter_has_them() -> None:
    run: Any = Trained()
    mail = Mailbox(Views(), "tos_1")
    served = Served(run, mail, Outbox())
    calls = tuple(Call(number, "set", {"sync_interval": number}, "Python") for number in (2, 1))
    mail.put(UP, written(Asked(1, 0, calls)))
    served.look()
    for future in served._made.values():
        future.result(10)
    assert sorted(each["sync_interval"] for each in run.asked) == [1, 2]


def test_a_call_is_numbered_where_no_letter_can_have_a_later_one_without_it() -> None:
    follower = Follower(Mailbox(Views(), "tos_1"), Future())
    locked: list[bool] = []

    def numbers() -> Iterator[int]:
        locked.append(follower._lock.locked())
        yield 1

    follower._numbers = numbers()
    follower._ask("pause", {})
    assert locked == [True]


def test_a_wait_that_was_too_long_in_the_task_is_told_as_the_task_says_it() -> None:
    answer: Future[Any] = Future()
    answer.set_exception(WaitTimeout("Spark does not answer."))
    with pytest.raises(WaitTimeout, match=r"Spark does not answer\."):
        Follower._awaited(Call(1, "set", {}, "Python"), answer, 1.0)


def test_a_call_that_no_letter_could_hold_is_refused() -> None:
    follower = Follower(Mailbox(Views(), "tos_1"), Future())
    with pytest.raises(ConfigError, match="stop: expected at most 98,304 bytes"):
        follower.call("stop", reason="語" * 20_000)
    assert follower._calls == {}


def test_letters_hold_what_fits_of_many_calls_answers_and_skipped_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What does not fit comes with another letter, or not at all where it is a list to look at."""
    run: Any = Trained()
    monkeypatch.setattr("tos_notebook.training.deployed.follower.BUSY", 0.0)
    run.skipped = tuple(Skipped(n, "語" * 99, 1, 0, "語" * 99) for n in range(9999))
    run.set = Mock(side_effect=ConfigError("語" * 99_999))
    views = Views()
    follower, outbox = Follower(Mailbox(views, "tos_1"), Future()), Outbox()
    served = Served(run, Mailbox(views, "tos_1"), outbox)
    for _ in range(3):
        outbox(StateChanged(1.0, "語" * (EVENTS // 20)))
    answers = [follower._ask("set", {"sync": "語" * 9000})[1] for _ in range(20)]
    while not all(answer.done() for answer in answers):
        follower._poll(lambda event: None)
        served.look()
    assert run.set.call_count == len(answers)
    assert 0 < len(follower.facts["skipped"]) < 500
    assert isinstance(answers[-1].exception(), ConfigError)


@pytest.mark.parametrize(
    ("begun", "text"), [(False, "has a free slot, on the Spark page"), (True, "read the data")]
)
def test_a_start_that_takes_too_long_says_whether_the_task_runs(
    monkeypatch: pytest.MonkeyPatch, begun: bool, text: str
) -> None:
    monkeypatch.setattr("tos_notebook.training.deployed.follower.BUSY", 0.01)
    task = Task(Views())
    task.mail.put(DOWN, written(Told(0, 0)) if begun else b"")
    with pytest.raises(WaitTimeout, match=text):
        task.follower.begun(0.05)


def test_large_parameters_have_more_time_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(Views())
    limits: list[float | None] = []

    def result(timeout: float | None = None) -> list[bytes]:
        limits.append(timeout)
        return []

    monkeypatch.setattr(task.job, "result", result)
    task.tell(1, facts={"ended": True, "state": "finished"})
    task.follower.begin("r", print, lambda _, error: task.ended.set_result(error), 600_000_000)
    assert task.ended.result(10) is None
    assert limits == [660.0]


def test_a_malformed_letter_ends_the_task_with_a_named_error() -> None:
    mail = Mailbox(Views(), "tos_1")
    mail.put(UP, b"cos\nsystem\n(S'true'\ntR.")
    run: Any = Trained()
    with pytest.raises(RemoteProtocolError, match="Asked in JSON"):
        Served(run, mail, Outbox()).look()
