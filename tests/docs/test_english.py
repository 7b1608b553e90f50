"""What people read is plain English: short sentences, and no words that slow readers down."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs._ext.messages import messages
from tests.docs.english import LIMIT, OUTSIDE, PAGES, findings, problems, sentences
from tests.docs.pages import ROOT
from tests.docs.texts import NOTEBOOKS, SAID, notebook, said, shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_is_plain_english(page: Path) -> None:
    """Pages show docstrings and help of the package, which are judged with them."""
    assert not findings(page), "See CONTRIBUTING.md, Prose."


def test_messages_are_plain_english() -> None:
    found = [(m.module, m.line, *each) for m in messages() for each in problems(m.text)]
    assert not found, "See CONTRIBUTING.md, Prose."


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_plain_english(path: Path) -> None:
    """Its text, the answers to its questions, and the comments of its code."""
    assert not list(problems(notebook(path))), "See CONTRIBUTING.md, Prose."


@pytest.mark.parametrize("path", SAID, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_a_module_says_is_plain_english(path: Path) -> None:
    """Hints of exercises, what magics and views say, notes of runs."""
    assert not [found for text in said(path) for found in problems(text)], "See CONTRIBUTING.md."


def test_what_view_and_plugin_show_is_plain_english() -> None:
    texts = list(shown())
    assert len(texts) > 300
    assert not [found for text in texts for found in problems(text)], "See CONTRIBUTING.md, Prose."


def test_the_pages_outside_of_the_folder_are_those_that_people_read_first() -> None:
    assert {"README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md"} <= set(OUTSIDE)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Nobody waits.", "'Nobody'"),
        ("A run goes on.", "'goes on'"),
        ("It is no list.", "'is no '"),
        ("There is no list, and it is no longer there.", ""),
        ("Whoever has waited long enough may continue now.", "'Whoever'"),
        ("What has waited long enough may continue now.", "question word"),
        ("What does a worker wait for in this mode?", ""),
        ("A combiner of your own.", "'of your own'"),
        ("It waits, too.", "'waits, too'"),
        ("It is too large, too small or empty.", ""),
        ("Code is not read: `nobody goes on`.", ""),
        ("```\\nnobody goes on\\n```", ""),
        ("| Nobody | waits |\\n", "'Nobody'"),
        ("The colour of a neighbour.", "'colour'"),
        (f"{'word ' * (LIMIT + 1)}", f"{LIMIT + 1} words"),
        (f"{'word ' * LIMIT}. Another.", ""),
    ],
)
def test_what_is_ruled_out_is_found(text: str, problem: str) -> None:
    found = [each for each, _ in problems(text.replace("\\n", "\n"))]
    assert bool(found) == bool(problem)
    assert not problem or any(problem in each for each in found)


def test_sentences_end_at_full_stops_and_at_cells() -> None:
    text = "One. Two (e.g. two)? Three\nfour.\n\n- Five, `a. B`.\n\n| Six | Seven. Eight |\n"
    found = ["One.", "Two (eg two)?", "Three four.", "Five, `x`.", "Six", "Seven.", "Eight"]
    assert list(sentences(text)) == found
