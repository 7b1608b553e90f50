"""`run_script`: exit codes, signals and progress, without Spark."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tos_notebook import scripts
from tos_notebook.common import interrupts
from tos_notebook.errors import ConfigError, WaitTimeout
from tos_notebook.scripts import run_script
from tos_notebook.telemetry.progress import ProgressLine, progress_line
from tos_notebook.training import factory
from tos_notebook.training.shown import wait_or_stop

LIMIT = 10.0


class FakeRun:
    """Trains until it is stopped."""

    def __init__(self, error: Exception | None = None) -> None:
        self.ended = threading.Event()
        self.reason: str | None = None
        self.sinks: list[Any] = []
        self._error = error

    @property
    def active(self) -> bool:
        return not self.ended.is_set()

    def stop(self, *, reason: str | None = None) -> None:
        self.reason = reason
        self.ended.set()
        if self._error is not None:
            raise self._error

    def add_sink(self, sink: Any) -> None:
        self.sinks.append(sink)


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> FakeRun:
    """The only run of this process."""
    made = FakeRun()
    monkeypatch.setattr(factory, "runs", lambda: [made])
    return made


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """All is as it was before, afterwards."""
    before = [signal.getsignal(each) for each in interrupts.ENDING]
    yield
    assert [signal.getsignal(each) for each in interrupts.ENDING] == before
    assert not [each for each in threading.enumerate() if each.name == "tos-signals"]
    assert factory.watchers == []


def test_a_script_that_is_done_exits_with_0() -> None:
    assert run_script(lambda: "whatever it returns") == 0


def test_an_error_of_the_package_is_one_message_and_code_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def main() -> None:
        raise ConfigError("epochs: expected another number.")

    assert run_script(main) == 1
    assert capsys.readouterr().err == "ConfigError: epochs: expected another number.\n"


@pytest.mark.parametrize("raised", [ZeroDivisionError(), SystemExit(3)])
def test_other_errors_and_exit_codes_are_the_script_s_own(raised: BaseException) -> None:
    def main() -> None:
        raise raised

    with pytest.raises(type(raised)):
        run_script(main)


@pytest.mark.parametrize("number", interrupts.ENDING)
def test_a_signal_stops_the_run_and_the_script_continues(
    training: FakeRun, number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    done = []

    def main() -> None:
        signal.raise_signal(number)
        assert training.ended.wait(LIMIT)
        done.append("saved")

    assert run_script(main) == 128 + number
    assert (training.reason, done) == (number.name, ["saved"])
    assert number.name in capsys.readouterr().err


def test_a_signal_while_nothing_trains_ends_the_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(factory, "runs", list)
    assert run_script(lambda: signal.raise_signal(signal.SIGTERM)) == 143
    assert capsys.readouterr().err == "The script has ended before it was done.\n"


def test_a_second_signal_ends_the_script(training: FakeRun) -> None:
    def main() -> None:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the script has continued")

    assert run_script(main) == 143


@pytest.mark.parametrize(("state", "stops"), [("running", 1), ("stopping", 0)])
def test_an_interrupt_of_a_wait_stops_the_run_once(state: str, stops: int) -> None:
    """The second signal ends a script at once, also where the run does not end."""
    stopped: list[str] = []

    def wait() -> None:
        raise KeyboardInterrupt

    run: Any = SimpleNamespace(
        wait=wait, active=True, state=state, stop=lambda: stopped.append(state)
    )
    with pytest.raises(KeyboardInterrupt):
        wait_or_stop(run)
    assert len(stopped) == stops


def test_after_a_signal_no_further_run_begins(training: FakeRun) -> None:
    """A cross-validation would begin one fit after the other."""

    def main() -> None:
        interrupts.refuse_more()
        signal.raise_signal(signal.SIGINT)
        assert training.ended.wait(LIMIT)
        interrupts.refuse_more()
        raise AssertionError("a run has begun")

    assert run_script(main) == 130
    interrupts.refuse_more()


def test_a_run_that_does_not_stop_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stuck = FakeRun(WaitTimeout("Run r did not end within 30 s of stop()."))
    monkeypatch.setattr(factory, "runs", lambda: [stuck])

    def main() -> None:
        signal.raise_signal(signal.SIGINT)
        assert stuck.ended.wait(LIMIT)

    assert run_script(main) == 130
    assert "WaitTimeout: Run r did not end" in capsys.readouterr().err


def test_a_signal_that_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run_script(lambda: signal.raise_signal(signal.SIGHUP)) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_on_another_thread_a_script_has_no_handlers_and_runs() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(run_script(lambda: None)))
    thread.start()
    thread.join(LIMIT)
    assert found == [0]


CHILD = "import signal; print(*(signal.getsignal(n) is signal.SIG_IGN for n in (1, 2, 15)))"


def child() -> str:
    """Return which signals a child ignores that is started as PySpark starts Java."""
    command = [sys.executable, "-c", CHILD]
    done = subprocess.run(command, preexec_fn=lambda: None, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def test_java_ignores_the_signals_of_a_script_and_no_other_child_does() -> None:
    """A kernel stops its children by signals: there they are heard."""
    with interrupts.sparing_children():
        outside = child()
    found = []

    def main() -> None:
        with interrupts.sparing_children():
            found.append(child())
        found.append(child())

    assert run_script(main) == 0
    assert (outside, found) == ("False False False", ["True True True", "False False False"])


def test_each_run_shows_how_far_it_is_once() -> None:
    def main() -> None:
        for run in runs:
            for watch in factory.watchers:
                watch(run)  # type: ignore[arg-type]

    runs = [FakeRun(), FakeRun()]
    runs[1].sinks.append(ProgressLine(io.StringIO()))
    assert run_script(main) == 0
    assert [len(run.sinks) for run in runs] == [1, 1]
    silent = runs[0] = FakeRun()
    assert run_script(main, progress=False) == 0
    assert silent.sinks == []


def test_a_script_s_log_has_the_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.unit.telemetry.samples import started
    from tos_notebook.telemetry import progress

    monkeypatch.setattr(progress, "ipython_shell", lambda: None)
    progress_line()(started(time=86400.0))
    line = capsys.readouterr().out
    assert line.startswith("1970-01-02T00:00:00+00:00  epoch 1/")
    monkeypatch.setattr(progress, "ipython_shell", lambda: object())
    progress_line()(started(time=86400.0))
    assert capsys.readouterr().out.startswith("epoch 1/")


def test_signals_exit_codes_are_those_of_the_page() -> None:
    assert [scripts.SIGNALED + each for each in interrupts.ENDING] == [129, 130, 143]
