from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.unit.telemetry.samples import milestone, started
from tos_notebook.events import CommandAccepted
from tos_notebook.telemetry.history import History
from tos_notebook.telemetry.report import write_report


class Page(HTMLParser):
    """What a browser would load, and the text outside scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self._quiet = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._quiet = tag in ("script", "style")
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        self._quiet = False

    def handle_data(self, data: str) -> None:
        if not self._quiet:
            self.text += data


def write(path: Path, *events: object, title: str = "Digits", **facts: str) -> Page:
    history = History()
    for event in events:
        history(event)
    return Page(write_report(path, history, title, facts).read_text(encoding="utf-8"))


def test_a_report_loads_nothing_from_anywhere_and_brings_its_own_plotly(tmp_path: Path) -> None:
    page = write(tmp_path / "report.html", milestone())
    assert page.loads == []
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Plotly.newPlot" in text
    assert len(text) > 1_000_000
    assert not re.search(r"<(script|link)[^>]+https?:", text)


def test_a_report_shows_facts_and_workers(tmp_path: Path) -> None:
    page = write(tmp_path / "r.html", milestone(executor="exec-7", samples=4321), accuracy="0.97")
    for expected in ("Digits", "accuracy", "0.97", "exec-7", "4321", "samples per second"):
        assert expected in page.text


def test_a_report_shows_what_the_run_was_told(tmp_path: Path) -> None:
    asked = CommandAccepted(2.0, "set", "sync=<b>", {}, "view")
    page = write(tmp_path / "r.html", started(), milestone(), asked)
    for expected in ("Steering", "sync=<b>", "view"):
        assert expected in page.text
    assert "Steering" not in write(tmp_path / "r.html", started(), milestone()).text


def test_a_report_of_steps_made_together_says_what_each_link_carried(tmp_path: Path) -> None:
    times = {"compute": 0.5, "exchange": 0.5, "wait": 0.0}
    told = milestone(**times, links=((0, 1, 12_300_000), (-1, 0, 900)), more_links=2)
    page = write(tmp_path / "r.html", started(lockstep=True), told)
    for expected in ("Links", "12.3 MB", "driver", "900 B", "And 2 links more."):
        assert expected in page.text
    assert "Links" not in write(tmp_path / "r.html", started(), told).text


def test_markup_in_titles_facts_and_hosts_is_text(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    page = write(tmp_path / "r.html", milestone(host=evil), title=evil, fact=evil)
    assert "img" not in page.tags
    assert page.text.count(evil) >= 3


def test_an_empty_history_makes_a_report_too(tmp_path: Path) -> None:
    assert "Workers" in write(tmp_path / "r.html").text


def test_directories_are_made_and_the_absolute_path_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_report("a/b/report.html", History(), "t", {})
    assert path == tmp_path / "a" / "b" / "report.html"
    assert path.is_file()


def test_an_unwritable_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        write_report(tmp_path, History(), "t", {})


def test_the_workers_of_steps_made_together_wait_and_are_not_stale(tmp_path: Path) -> None:
    together = write(tmp_path / "a.html", started(lockstep=True), milestone(wait=1.25))
    assert "waited" in together.text
    assert "1.25" in together.text
    assert "stale" not in together.text
