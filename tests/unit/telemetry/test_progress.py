from __future__ import annotations

import io
import math

import pytest

from tests.unit.telemetry.samples import milestone, started
from tos_notebook.events import CheckpointFailed, EpochFinished, Event, RunFinished, Stalled
from tos_notebook.telemetry.progress import AGAIN, PLAIN_INTERVAL, ProgressLine, describe
from tos_notebook.telemetry.tally import Totals


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def draw(stream: io.StringIO, *events: Event, interval: float = 0.2) -> str:
    line = ProgressLine(stream, interval)
    for event in events:
        line(event)
    return stream.getvalue()


def screen(written: str) -> list[str]:
    """Replay carriage returns as a terminal would."""
    lines = []
    for raw in written.split("\n"):
        shown = ""
        for part in raw.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown.rstrip())
    return lines


def totals(**changes: float | None) -> Totals:
    fields = {
        "epoch": 1,
        "epochs": 5,
        "milestones": 340,
        "samples": 34000,
        "samples_total": None,
        "samples_per_second": 215_000.4,
        "loss": 0.2134,
        "staleness_mean": 1.0,
        "recent_staleness": 1.0,
        "recent_workers": 2.0,
        "elapsed": 1.0,
    }
    return Totals(**fields | changes)  # type: ignore[arg-type]


def test_a_line_has_the_latest_validation_under_the_names_of_keras() -> None:
    found = {"loss": 0.25, "accuracy": 0.9431, "auc\n": 0.5, "f1": 0.4}
    line = describe(totals(validation=found))  # type: ignore[arg-type]
    assert "  loss 0.213  val_loss 0.25  val_accuracy 0.943  val_auc" in line
    assert line.endswith(" 0.5  staleness 1.0")
    assert "\n" not in line


def test_a_line_says_epoch_milestones_rate_loss_and_staleness() -> None:
    assert (
        describe(totals()) == "epoch 2/5  milestones 340  215,000 samples/s  loss 0.213  "
        "staleness 1.0"
    )


def test_what_is_unknown_is_left_out_and_a_diverged_loss_is_shown() -> None:
    early = totals(epoch=0, milestones=0, samples_per_second=0.0, loss=math.nan)
    assert describe(early) == "epoch 1/5  milestones 0"
    assert "loss nan" in describe(totals(loss=math.nan))
    assert "loss inf" in describe(totals(loss=math.inf))


def test_the_epoch_shown_never_exceeds_the_epochs() -> None:
    assert describe(totals(epoch=5)).startswith("epoch 5/5")


def test_on_a_terminal_one_line_is_rewritten_at_most_once_per_interval() -> None:
    ticks = [milestone(time=t / 64) for t in range(1, 65)]
    written = draw(Terminal(), started(time=0.0), *ticks, interval=0.25)
    assert "\n" not in written
    assert written.count("\r") == 1 + 4


def test_on_a_terminal_a_shorter_line_leaves_nothing_of_the_longer_one() -> None:
    long = milestone(time=1.0, samples=1, loss=1e20)
    short = milestone(time=1.5, samples=1, loss=-1e20)
    written = draw(Terminal(), started(), long, short)
    assert "loss 1e+20" in written
    assert screen(written) == ["epoch 1/5  milestones 2  2 samples/s  loss 0  staleness 1.0"]


def test_on_a_narrow_terminal_the_moving_line_does_not_wrap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    written = draw(Terminal(), started(), milestone(time=1.0))
    assert max(len(part) for part in written.split("\r")) == 29


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_the_last_line_tells_the_outcome_and_ends_with_a_newline(
    stream: type[io.StringIO],
) -> None:
    written = draw(stream(), started(), milestone(time=1.0), RunFinished(1.05, "finished"))
    last = screen(written)[-2]
    assert last == "epoch 1/5  milestones 1  loss 0.5  staleness 1.0  finished"
    assert written.endswith("\n")


def test_a_stop_shows_its_reason() -> None:
    ending = RunFinished(1.05, "stopped", reason="training loss 0.09 < 0.1")
    written = draw(io.StringIO(), started(), milestone(time=1.0), ending)
    assert written.endswith("stopped: training loss 0.09 < 0.1\n")


def test_a_checkpoint_that_failed_has_a_line_of_its_own() -> None:
    written = draw(io.StringIO(), started(), CheckpointFailed(1.0, "the disk is full"))
    assert written.splitlines()[1:] == ["A checkpoint failed: the disk is full"]


def test_a_failure_shows_the_first_line_of_its_error() -> None:
    failed = RunFinished(1.0, "failed", "ValueError: bad\nTraceback ...")
    assert draw(io.StringIO(), failed).endswith("failed: ValueError: bad\n")


def test_a_file_gets_a_plain_line_every_few_seconds() -> None:
    ticks = [milestone(time=float(t)) for t in range(1, 21)]
    written = draw(io.StringIO(), started(time=0.0), *ticks)
    assert "\r" not in written
    assert len(written.splitlines()) == 1 + 20 / PLAIN_INTERVAL


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_what_comes_before_the_first_milestone_is_said_at_once(stream: type[io.StringIO]) -> None:
    """Workers import TensorFlow then: for seconds no event comes."""
    told = screen(draw(stream(), started()))[0]
    assert (
        told == "epoch 1/5  milestones 0  workers start, and import TensorFlow, which takes seconds"
    )
    later = screen(draw(stream(), started(), milestone(time=9.0)))
    assert [line.count("TensorFlow") for line in later if "milestones 1" in line] == [0]


def test_a_file_gets_a_line_at_each_epochs_end() -> None:
    written = draw(
        io.StringIO(),
        started(time=0.0),
        milestone(time=0.1),
        EpochFinished(0.2, epoch=0, samples=100),
        milestone(time=0.3, epoch=1),
        EpochFinished(0.4, epoch=1, samples=100),
    )
    assert [line[:9] for line in written.splitlines()] == ["epoch 1/5", "epoch 1/5", "epoch 2/5"]


def test_close_ends_a_line_that_is_still_moving_and_only_that() -> None:
    # A plain line has its end.
    for stream in (Terminal(), io.StringIO()):
        line = ProgressLine(stream)
        line(started())
        line.close()
        line.close()
        assert stream.getvalue().endswith("\n")
        assert stream.getvalue().count("\n") == 1


STALLED = Stalled(1.0, "worker", "The run waits for a worker.", "See Spark.", 0.0)


def test_what_a_run_waits_for_is_said_at_once_on_a_line_of_its_own() -> None:
    assert draw(io.StringIO(), started(0.0), STALLED).endswith(
        "The run waits for a worker. See Spark.\n"
    )
    written = draw(Terminal(), started(0.0), STALLED, RunFinished(2.0, "stopped"))
    first, second, *_ = screen(written)
    assert first == "The run waits for a worker. See Spark."
    assert second.endswith("stopped")


def test_the_same_wait_is_not_told_again_and_again_though_it_began_anew() -> None:
    text = "Nothing has come since 12:00:0{}: the run waits for {}."
    same = [Stalled(t, "w", text.format(t, "a worker"), "See Spark.", 0.0) for t in range(1, 6)]
    other = Stalled(6.0, "w", text.format(6, "the data"), "See Spark.", 0.0)
    later = Stalled(1.0 + AGAIN, "w", text.format(7, "a worker"), "See Spark.", 0.0)
    lines = draw(io.StringIO(), started(5.0), *same, other, later).splitlines()
    assert [line for line in lines if "waits for" in line] == [
        "Nothing has come since 12:00:01: the run waits for a worker. See Spark.",
        "Nothing has come since 12:00:06: the run waits for the data. See Spark.",
        "Nothing has come since 12:00:07: the run waits for a worker. See Spark.",
    ]


def test_what_cannot_be_stale_is_not_said_to_be() -> None:
    line = describe(totals(milestones=3, loss=0.5, staleness_mean=math.nan))
    assert line.endswith("loss 0.5")


def test_a_log_has_the_time_in_utc_and_at_most_one_line_a_second() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream, stamped=True)
    day = 86400.0
    for event in (
        started(time=day),
        EpochFinished(day + 0.5, 0, 0),
        EpochFinished(day + 1.0, 0, 1),
        Stalled(day + 1.2, "worker", "The run waits for a worker.", "See Spark.", day),
        RunFinished(day + 1.4, "stopped", reason="SIGTERM"),
    ):
        line(event)
    lines = stream.getvalue().splitlines()
    assert [each[:27] for each in lines] == [
        f"1970-01-02T00:00:0{second}+00:00  " for second in (0, 1, 1, 1)
    ]
    assert lines[-1].endswith("  stopped: SIGTERM")


def test_a_terminal_shows_no_time() -> None:
    stream = Terminal()
    ProgressLine(stream, stamped=True)(started())
    assert stream.getvalue().startswith("\repoch 1/")
