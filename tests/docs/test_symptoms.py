"""What the page of symptoms quotes is what the package says."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from docs._ext.messages import PACKAGE
from tests.docs.pages import DOCS

QUOTED = [
    "Nothing has come since",
    "a worker to join for partition",
    "Spark to end the job: every partition is used up",
    "the validation after the last epoch, or callbacks",
    "The Spark job lost",
    "Spark's job was canceled from outside the run",
    "another program answers there",
    "A partition must hold the same rows",
]


@cache
def said() -> list[str]:
    """Return every text in the package's sources."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree))
    return [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]


@pytest.mark.parametrize("words", QUOTED)
def test_words_that_are_quoted_are_said(words: str) -> None:
    assert words in (DOCS / "troubleshooting" / "symptoms.md").read_text(encoding="utf-8")
    assert any(words in text for text in said())
