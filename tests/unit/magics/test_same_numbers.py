"""Each place that tells of a run says the same loss, epoch, progress and time."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import classifier
from tests.support.watching import Watch
from tests.unit.magics.conftest import Cells
from tests.unit.widgets.support import Front
from tos_notebook.events import CommandApplied, EpochFinished, Event, MilestoneCommitted
from tos_notebook.steering.machine import Command
from tos_notebook.telemetry.progress import ProgressLine
from tos_notebook.telemetry.tally import RECENT
from tos_notebook.widgets.facts import RunFacts
from tos_notebook.widgets.feed import Feed
from tos_notebook.widgets.model import RunModel
from tos_notebook.widgets.picture import Result

EPOCHS, ROWS = 5, 400
Said = dict[str, dict[str, Any]]


class Told(RunModel):
    """What a view shows, a line of text, and somebody who waits until both have heard."""

    def __init__(self) -> None:
        super().__init__()
        self.text = io.StringIO()
        self.watch = Watch()
        self._line = ProgressLine(self.text)

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        self._line(event)
        self.watch(event)


@pytest.fixture
def session(cells: Cells, spark_context: Any, tmp_path: Path) -> Iterator[tos.TrainingSession]:
    options: dict[str, Any] = {
        "batch_size": 20,
        "sync_interval": 2,
        "checkpoint_dir": str(tmp_path),
    }
    with tos.TrainingSession(spark_context, classifier(), **options) as made:
        yield made


def numbers(pattern: str, text: str) -> Any:
    """Return the numbers of the last place that fits: a tuple if there are several."""
    last = re.findall(pattern.replace("#", r"(\d[\d,.e+-]*)"), text)[-1]
    values = [float(n.replace(",", "")) for n in ([last] if isinstance(last, str) else last)]
    return tuple(values) if len(values) > 1 else values[0]


def said(run: tos.Run, told: Told, cells: Cells) -> Said:
    """Return what each of those who tell of a run says of it now."""
    front, facts, earlier = Front(), RunFacts(run), run.status.elapsed
    feed = Feed(told, facts, front)
    feed.hello()
    now = time.time()
    feed.tick(now, last=False)
    row, (shown, totals, rows) = told.row(now, facts()), map(front.state.get, PARTS)
    status, history, workers = run.status, run.history, run.workers
    line, picture = cells("%tos_status"), repr(Result(run))
    recent, share = history.tail(RECENT), "epoch # of #"
    assert earlier <= shown["elapsed"] + 0.001 <= status.elapsed + 0.002
    return {
        "epoch": {
            "live view": (shown["epoch"], shown["epochs"]),
            "its table": (max(worker["epoch"] for worker in rows), EPOCHS),
            "list of runs": (row["epoch"], row["epochs"]),
            "status": (status.epoch, status.epochs),
            "%tos_status": numbers(share, line),
            "record": numbers(share, picture),
            "history": (history["epoch"].iloc[-1], EPOCHS),
            "workers": (workers["epoch"].max(), EPOCHS),
        },
        "loss": {
            "live view": totals["loss"],
            "list of runs": row["loss"],
            "status": three(status.loss),
            "%tos_status": numbers(", loss #,", line),
            "record": numbers("Training loss: #", picture),
            "history": three(np.average(recent["loss"], weights=recent["samples"])),
        },
        "samples": {
            "live view": (totals["samples"], totals["samples_total"]),
            "list of runs": (row["samples"], row["samples_total"]),
            "status": (status.samples, EPOCHS * ROWS),
            "%tos_status": (numbers("# samples, ", line), EPOCHS * ROWS),
            "record": (numbers("Samples: #,", picture), EPOCHS * ROWS),
            "history": (history["samples"].sum(), EPOCHS * ROWS),
            "workers": (workers["samples"].sum(), EPOCHS * ROWS),
        },
        "to go": {"live view": totals["eta"], "list of runs": row["eta"]},
    }


PARTS = ("run", "totals", "workers")


def three(value: float) -> float:
    return float(f"{value:.3g}")


def agreed(told: Said) -> dict[str, Any]:
    """Return the one answer that all give to each question."""
    for question, answers in told.items():
        assert len(set(answers.values())) == 1, (question, answers)
    return {question: next(iter(answers.values())) for question, answers in told.items()}


def test_all_who_tell_of_a_run_agree_while_it_is_paused_and_at_its_end(
    cells: Cells, session: tos.TrainingSession, spark_context: Any, tmp_path: Path
) -> None:
    rng, told = np.random.default_rng(0), Told()
    x = rng.normal(size=(ROWS, 64)).astype(np.float32)
    data, options = (x, np.arange(ROWS) % 10), {"partitions": 1, "checkpoint_every": "1000s"}
    run = session.start(data, epochs=EPOCHS, sinks=[told], **options)
    # Slow enough to be paused before the last epoch.
    run.chaos(tos.chaos.Pause(0.05, any=1))
    mark = told.watch.until(EpochFinished)
    mark = told.watch.until(MilestoneCommitted, mark, count=2)
    run.pause()
    told.watch.until(CommandApplied, mark, lambda event: event.command == Command.PAUSE)
    paused = agreed(said(run, told, cells))
    assert 1 < paused["epoch"][0] < EPOCHS
    assert paused["to go"] > 0

    run.chaos()
    run.unpause()
    run.wait(60)
    ended = said(run, told, cells)
    (saved,) = tos.runs(str(tmp_path), spark=spark_context)
    line, page = told.text.getvalue(), run.report(tmp_path / "page.html").read_text("utf-8")
    card = Path(run.model_card(tmp_path / "card.md")).read_text("utf-8")
    ended["epoch"] |= {
        "saved run": (saved.epoch, saved.epochs),
        "line of text": numbers("epoch #/#", line),
        "report": numbers("<td># of #</td>", page),
        "card": numbers("epoch # of #,", card),
    }
    ended["loss"] |= {"saved run": three(saved.loss), "line of text": numbers("  loss #  ", line)}
    ended["samples"] |= {"saved run": (saved.samples, EPOCHS * ROWS)}
    assert agreed(ended)["epoch"] == (EPOCHS, EPOCHS)
    assert agreed(ended)["to go"] is None
    assert agreed(ended)["samples"] == (EPOCHS * ROWS, EPOCHS * ROWS)
    status = run.status
    assert told.snapshot(time.time(), RunFacts(run)()).state["run"]["elapsed"] == pytest.approx(
        status.elapsed, abs=0.001
    )
