"""Whatever others wrote is shown as the text that it is: it executes nothing and hides nothing."""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from nbconvert.filters.markdown_mistune import markdown2html_mistune

from tests.support.hostile import LONG, TEXTS
from tests.support.settings import SETTINGS
from tests.unit.telemetry.samples import milestone, started
from tests.unit.widgets.support import FakeRun, mimebundle
from tos_notebook.common.rows import Rows
from tos_notebook.errors import (
    CheckpointError,
    ConfigError,
    InvalidTransition,
    TosError,
    WaitTimeout,
    WorkerError,
)
from tos_notebook.events import RunFinished, StateChanged, Validated, WorkerFailed
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.magics.text import say
from tos_notebook.persist.sealed import encode
from tos_notebook.readable import LONGEST_NAME, is_readable, one_line, readable, shortened, summary
from tos_notebook.telemetry.figure import LABEL, figure
from tos_notebook.telemetry.history import History
from tos_notebook.telemetry.report import write_report
from tos_notebook.training.results.card import card
from tos_notebook.training.saved import saved_runs
from tos_notebook.training.summaries import summaries
from tos_notebook.widgets import Result, RunModel

hostile = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)


class Page(HTMLParser):
    """Elements of a page, with their attributes, and its text outside scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._quiet = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._quiet = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._quiet = False

    def handle_data(self, data: str) -> None:
        if not self._quiet:
            self.text += data

    def is_still(self) -> bool:
        """Whether nothing on it loads, leads away or executes."""
        return "script" not in self.tags and all(
            str(value).startswith(("#", "data:image/svg+xml;base64,"))
            for name, value in self.attributes
            if name.startswith("on") or name in ("src", "href")
        )


@hostile
def test_text_is_made_readable_once_and_stays_so(text: str) -> None:
    for clean in (readable(text), one_line(text), shortened(readable(text), 40)):
        assert is_readable(clean)
        assert clean.encode("utf-8")
    assert readable(readable(text)) == readable(text)
    assert "\n" not in one_line(text)


def test_what_is_too_long_keeps_both_ends_and_says_that_something_is_missing() -> None:
    assert shortened("a" * 99 + "b" * 99, 20) == "a" * 14 + "…" + "b" * 5
    assert shortened("abc", 3) == "abc"
    assert readable(LONG + "1", 256) != readable(LONG + "2", 256)


@hostile
def test_a_report_is_written_and_shows_it_as_text(tmp_path: Path, text: str) -> None:
    history = History()
    history(milestone(executor=text, host=text))
    history(milestone(2.0, executor="2"))
    path = write_report(tmp_path / "report.html", history, text, {text: text})
    source = path.read_text(encoding="utf-8")
    # plotly's own program is full of control characters.
    head, _, rest = source.partition("<h2>Training</h2>")
    _, _, tail = rest.rpartition("<h2>Workers</h2>")
    for part, times in ((head, 4), (tail, 2)):
        page = Page(part)
        assert page.is_still()
        assert is_readable(part)
        assert page.text.count(readable(text)) == times


@hostile
def test_a_figure_takes_no_markup_from_names(text: str) -> None:
    history = History()
    for executor in (text, "2"):
        history(milestone(executor=executor))
    (name,) = [t.name for t in figure(history).data if t.legend == "legend2" and t.name[-1] != "2"]
    assert not re.search(r"[<>\n]", name)
    assert is_readable(name)
    assert len(name) <= len("executor ") + 5 * LABEL


@hostile
def test_the_picture_of_a_run_shows_it_as_text(text: str) -> None:
    model = RunModel()
    model(started())
    model(StateChanged(0.0, "running"))
    # As long as it travels.
    name = text[:LONGEST_NAME]
    for number in (1.0, 2.0):
        model(milestone(number, executor=name, host=name, metrics={name: number}))
    model(Validated(2.0, 0, 100, {name: 0.5}))
    model(WorkerFailed(3.0, 0, 0, name, name, text, (text,), 0, ()))
    model(RunFinished(4.0, "failed", text))
    run: Any = FakeRun(model)
    run.run_id = run.master = run.program.summary = text
    shown = mimebundle(Result(run))
    page = Page(shown["text/html"])
    assert page.is_still()
    assert page.tags.count("td") == 15 + 16
    for said in (*shown.values(), repr(Result(run))):
        assert is_readable(said)
    drawn = re.findall(r"svg\+xml;base64,([^\"]+)", shown["text/html"])
    for label in (ET.fromstring(base64.b64decode(one)).attrib["aria-label"] for one in drawn):
        assert is_readable(label)
    assert drawn
    assert len(shown["text/html"]) < 100_000
    if text == LONG:
        assert ("title", name) in page.attributes
        assert "…" in page.text


class CardRun(FakeRun):
    """What a card tells of a run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        import pandas as pd

        self.run_id = self.master = text
        layout = Layout([ParameterSpec(text, (2,), "float32")])
        self.program = SimpleNamespace(
            summary=text,
            feeds=[SimpleNamespace(name=text)],
            layout=SimpleNamespace(of_model=layout),
        )
        self.status = SimpleNamespace(state="finished", epoch=1, epochs=1, samples=1, elapsed=1.0)
        self.history = pd.DataFrame({"epoch": [1], "loss": [0.5], "samples": [10]})
        row = {"time": 1.0, "epoch": 1, "samples": 10, text: 0.25}
        self.validation = pd.DataFrame([row])
        self.own_rate = None
        self.events = Rows()
        combiner: Any = text
        self.settings = replace(SETTINGS, combiner=combiner)


@hostile
def test_the_tables_of_a_model_card_stay_tables(text: str) -> None:
    column = SimpleNamespace(dtype="float32", shape=(4,))
    source: Any = SimpleNamespace(columns=[column], samples=10, partitions=2)
    made = card(CardRun(text), source, "keep")  # type: ignore[arg-type]
    assert is_readable(made)
    html = markdown2html_mistune(made)
    page = Page(html)
    assert page.is_still()
    rows = [len(re.findall("<t[hd]>", row)) for row in re.findall("(?s)<tr>.*?</tr>", html)]
    assert rows == [3] * 2 + [3] * 2 + [2] * 10 + [4] * 2 + [2] * 7
    # In the title, its paragraph twice, and a cell of each table but the last.
    assert page.text.count(one_line(text)) == 7


class Shelf:
    """Storage that holds one checkpoint of anybody's making."""

    uri = "hdfs:///runs/run-1"

    def __init__(self, summary: dict[str, Any], uri: str = uri) -> None:
        self._content = encode(summary)
        self.uri = uri

    def list(self) -> list[str]:
        return ["checkpoint-00000001.tos"]

    def head(self, name: str, count: int) -> bytes:
        return self._content[:count]

    def size(self) -> int:
        return len(self._content)


SUMMARY = {
    "epoch": 1,
    "epochs": 2,
    "milestones": 3,
    "samples": 4,
    "loss": 0.5,
    "when": 1.8e9,
    "created": 0.0,
    "validation": {"loss": 0.25},
}


@hostile
def test_the_list_of_saved_runs_shows_it_as_text(text: str) -> None:
    shelf: Any = Shelf({**SUMMARY, "run": text, "name": text, "state": text})
    found = saved_runs([shelf])
    page = found._repr_html_()
    assert len(found) == 1
    assert page is not None
    assert Page(page).is_still()
    for said in (page, repr(found), found[0].run):
        assert is_readable(said)


GOOD = {**SUMMARY, "run": "run-2", "name": "wide", "state": "finished"}

WRONG = [
    *({name: value} for name in GOOD for value in ([], True)),
    *({name: {"a": 1}} for name in GOOD if name != "validation"),
    # A run need not have a name.
    *({name: None} for name in GOOD if name != "name"),
    *({name: 5} for name in ("run", "name", "state")),
    *({name: "five"} for name in (*SUMMARY,)),
    *({"when": value} for value in (math.nan, math.inf, -1e300, 10**400)),
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_one_saved_run_of_wrong_fields_is_shown_as_unreadable_beside_the_others(
    wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    shelves: Any = [Shelf({**GOOD, **wrong}, "hdfs:///runs/run-1"), Shelf(GOOD)]
    found = saved_runs(shelves)
    assert [(run.run, run.state) for run in found] == [
        ("run-1", "unreadable"),
        ("run-2", "finished"),
    ]
    assert "unreadable" in repr(found)
    assert "checkpoint-00000001.tos is sealed, but" in caplog.text


def test_a_saved_run_without_all_of_its_fields_is_shown_as_unreadable() -> None:
    for name in GOOD:
        shelf: Any = Shelf({n: value for n, value in GOOD.items() if n != name})
        assert [found.state for found in summaries([shelf])] == ["unreadable"]


def test_a_folder_that_cannot_be_listed_hides_no_saved_run() -> None:
    class Locked(Shelf):
        def list(self) -> list[str]:
            raise CheckpointError("Permission denied")

    shelves: Any = [Locked(GOOD), Shelf(GOOD)]
    assert [found.state for found in summaries(shelves)] == ["unreadable", "finished"]


@pytest.mark.parametrize("text", [t for t in TEXTS.values() if t != LONG])
def test_what_a_magic_says_can_be_sent(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(text)
    said = capsys.readouterr().out
    assert is_readable(said)
    assert said == readable(text) + "\n"


@hostile
@pytest.mark.parametrize("kind", [ConfigError, WorkerError, WaitTimeout])
def test_an_error_that_a_cell_raises_can_be_sent(text: str, kind: type[TosError]) -> None:
    error = kind(text)
    for said in (str(error), *error._render_traceback_()):
        assert is_readable(said)
        assert readable(text) in said
    assert is_readable(str(InvalidTransition(text, text, text)))


@hostile
def test_a_note_on_an_error_is_one_readable_line(text: str) -> None:
    said = summary(ValueError(text))
    assert is_readable(said)
    assert "\n" not in said
    assert json.dumps(said, ensure_ascii=False).encode("utf-8")
