"""The course on paper: pages that print, and need neither kernel nor network."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from tests.support.long import few
from tos_workshop import handouts

COURSE = sorted(path.name for path in handouts.COURSE.glob("*.ipynb"))
OUTSIDE = re.compile(r'<(?:script|img|link)[^>]*\s(?:src|href)="(?!data:)[^"#]')


@pytest.mark.parametrize("name", few(COURSE, "01a_one_gradient.ipynb"))
def test_a_notebook_shows_its_text_its_pictures_and_its_answers(name: str) -> None:
    path = handouts.COURSE / name
    page = handouts.notebook(path)
    title = nbformat.read(path, 4).cells[0].source.splitlines()[0].strip("# ")
    assert title in page
    assert not OUTSIDE.findall(page)
    # Answers are open, since paper has no triangle to click on.
    assert "<details>" not in page


def test_a_figure_that_paper_cannot_show_has_words_in_its_place(tmp_path: Path) -> None:
    figure = nbformat.v4.new_output("display_data", {handouts.PLOTLY: {"data": []}})
    cell = nbformat.v4.new_code_cell("figure", outputs=[figure])
    path = tmp_path / "figure.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    assert "[Run this cell to see its figure.]" in handouts.notebook(path)


def test_there_are_ten_slides_and_the_cheat_sheet_has_its_formulas() -> None:
    slides = handouts.slides()
    assert slides.count('<section class="slide">') == 10
    assert slides.count('src="data:image/svg+xml;base64,') == 2
    sheet = handouts.sheet()
    assert "2 sin(π / (2 (2τ + 1)))" in sheet
    assert "size: A4" in sheet
    assert not OUTSIDE.findall(slides + sheet)


def test_one_command_writes_all_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Notebooks are left out here: the test above makes one of them."""
    monkeypatch.setattr(handouts, "notebook", lambda path: path.stem)
    handouts.main([str(tmp_path / "pages")])
    names = {path.stem for path in (tmp_path / "pages").glob("*.html")}
    assert names == {name.removesuffix(".ipynb") for name in COURSE} | {
        "slides",
        "cheat-sheet",
        "solutions",
    }
    assert f"{len(names)} pages are in" in capsys.readouterr().out
