"""A wait for executors says what it waits for, and ends at once if that can never come."""

from __future__ import annotations

import pytest

from tos_notebook.cluster import patience as module
from tos_notebook.cluster.patience import SAY, Patience, check_cores
from tos_notebook.errors import ConfigError


class Waiting:
    """A wait for tasks of two cores, whose time and executors a test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cores: list[int] = []
        self.said: list[str] = []
        self.patience = Patience(
            600.0,
            "spark://host:7077",
            lambda: self.cores,
            2,
            self.said.append,
            lambda: self.now,
        )

    def at(self, now: float) -> bool:
        self.now = now
        return self.patience.look()


def test_a_line_says_what_is_waited_for_and_at_once_what_is_new() -> None:
    waiting = Waiting()
    assert waiting.at(SAY - 1)
    assert waiting.said == []
    assert waiting.at(SAY)
    waiting.cores = [4]
    assert waiting.at(2 * SAY)
    assert waiting.said == [
        "Waiting for spark://host:7077 to give executors: no executor so far, 15 s of at most "
        "600 s.",
        "Waiting for spark://host:7077 to import TensorFlow, or to have a free core: 1 executor so "
        "far, 30 s of at most 600 s.",
    ]


def test_what_has_not_changed_is_said_ever_more_rarely() -> None:
    waiting = Waiting()
    for now in range(590):
        waiting.at(float(now))
    assert [line.rpartition(" far, ")[2].split()[0] for line in waiting.said] == [
        "15", "30", "60", "120", "240", "480",
    ]  # fmt: skip


def test_the_time_is_up_when_it_is() -> None:
    waiting = Waiting()
    assert waiting.at(599.9)
    assert not waiting.at(600.0)
    assert (waiting.patience.expired, waiting.patience.hopeless) == (True, None)


def test_tasks_that_fit_on_no_executor_are_named_at_once() -> None:
    waiting = Waiting()
    waiting.cores = [1, 1]
    assert not waiting.at(1.0)
    assert not waiting.patience.expired
    assert str(waiting.patience.hopeless).startswith(
        "No task can ever start: spark.task.cpus is 2, but no executor has more than 1 core. "
    )


def test_one_executor_that_is_large_enough_will_do() -> None:
    waiting = Waiting()
    waiting.cores = [1, 2]
    assert waiting.at(1.0)


def test_tasks_that_need_more_cores_than_this_machine_gives_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "is_local", lambda sc: True)
    monkeypatch.setattr(module, "task_cores", lambda sc: 4)
    monkeypatch.setattr(module, "executor_cores", lambda sc: [2])
    with pytest.raises(ConfigError, match=r"spark\.task\.cpus is 4, .* more than 2 cores"):
        check_cores(None)  # type: ignore[arg-type]
    monkeypatch.setattr(module, "executor_cores", lambda sc: [4])
    check_cores(None)  # type: ignore[arg-type]
