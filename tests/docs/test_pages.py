"""The pages show what the code says now, and README can be pasted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docs._ext.pages import BLOCK, fresh
from docs._ext.rst import inline, paragraphs
from tests.docs.pages import DOCS, ROOT

README = ROOT / "README.md"
WORDS = 900


def test_the_pages_are_current() -> None:
    command = [sys.executable, "-m", "docs._ext.pages", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"Write them: make pages\n{done.stdout}{done.stderr[-2000:]}"


def test_a_page_keeps_what_is_around_a_block() -> None:
    text = "before\n<!-- generated commands -->\nold\n<!-- end -->\nafter\n"
    now = fresh(text)
    assert now.startswith("before\n<!-- generated commands -->\n")
    assert now.endswith("<!-- end -->\nafter\n")
    assert "| While the run is |" in now
    assert "old" not in now


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_a_page_shows_no_directives_where_nothing_is_built(page: Path) -> None:
    text = page.read_text("utf-8")
    assert not re.findall(r"^(`{3,}|:{3,})\{", text, re.MULTILINE)
    assert len(BLOCK.findall(text)) == len(re.findall(r"^<!-- (?:generated|api)\b", text, re.M))


def test_docstrings_become_markdown() -> None:
    lines = ["Give ``x`` or `y_`:", "", "- one", "  line; see `RunStatus`", "- two", "", "So::", ""]
    lines += ["    a = 1", "", "    b = 2", "", "End <of> it."]
    assert paragraphs(lines) == (
        "Give `x` or `y_`:\n\n- one line; see `RunStatus`\n- two\n\nSo:\n\n"
        "```text\na = 1\n\nb = 2\n```\n\nEnd \\<of\\> it."
    )
    assert inline("`a page <https://example.org>`_") == "[a page](https://example.org)"
    assert inline("`tos_notebook.fit`") == "`tos.fit`"
    assert inline("`tos_notebook.telemetry.history.History.frame`") == "`History.frame`"


def test_the_page_of_screenshots_shows_each_once_and_they_are_small() -> None:
    text = (DOCS / "tutorial/what-you-see.md").read_text("utf-8")
    files = sorted((DOCS / "tutorial/pictures").iterdir())
    assert sorted(re.findall(r"\]\(pictures/(.+?)\)", text)) == [file.name for file in files]
    assert sum(file.stat().st_size for file in files) < 1_500_000


def test_readme_is_short() -> None:
    assert len(README.read_text("utf-8").split()) <= WORDS


def test_the_program_in_readme_runs(spark_context: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.M | re.S)
    known: dict[str, Any] = {}
    exec(program, known)
    assert known["run"].state == "finished"
    assert known["run"].evaluate(*known["test"])["accuracy"] > 0.8


def test_ways_to_install_name_the_same_versions() -> None:
    environment = (ROOT / "environment.yml").read_text("utf-8")
    image = (ROOT / "Dockerfile").read_text("utf-8")
    assert "python=3.11" in environment
    assert "FROM python:3.11" in image
    assert "openjdk=17" in environment
    assert "openjdk-17" in image
    assert all("[demo,lab,tensorboard]" in text for text in (environment, image))
    copied = re.findall(r"^COPY --chown=learner (\w+) ", image, re.MULTILINE)
    assert copied == ["notebooks", "docs"]
