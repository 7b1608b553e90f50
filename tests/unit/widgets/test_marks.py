"""Flags of the still picture."""

from __future__ import annotations

import pytest

from tos_notebook.widgets.marks import in_plain


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("EASGD(alpha=None)", "EASGD"),
        ("EASGD(alpha=0.9, tau=None)", "EASGD, alpha 0.9"),
        ("learning_rate=0.01", "learning_rate=0.01"),
        ("DynSGD()", "DynSGD"),
    ],
)
def test_rules_are_in_words(text: str, words: str) -> None:
    """People read them on charts: Python's own notation says nothing to many."""
    assert in_plain(text) == words
