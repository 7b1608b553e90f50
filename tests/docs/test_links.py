"""Links in Markdown lead somewhere: on GitHub, where nothing else looks at them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

from docs._ext.site import malformed
from tests.docs.pages import DOCS, ROOT, sections, slug

OUTSIDE = ["README.md", "SECURITY.md", "CHANGELOG.md", "benchmarks/papers/RESULTS.md"]
PAGES = sorted([*DOCS.rglob("*.md"), *(ROOT / name for name in OUTSIDE)])


def links(path: Path) -> list[str]:
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(path.read_text(encoding="utf-8"))
    inside = [child for token in tokens for child in token.children or []]
    found = [child.attrs.get("href", child.attrs.get("src")) for child in inside]
    return [str(link) for link in found if link]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings_that_there_are(page: Path) -> None:
    for link in links(page):
        if ":" in link:
            assert malformed(link) == ""
            continue
        name, _, anchor = unquote(link).partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        if anchor:
            assert anchor in map(slug, sections(target)), link


@pytest.mark.parametrize(
    "uri",
    [
        "http://example.org/",
        "https://example",
        "https://example.org/a b",
        "https://example.org/page.",
        "mailto:someone",
        "https:///page",
    ],
)
def test_a_link_of_a_wrong_form_is_found(uri: str) -> None:
    assert malformed(uri)


@pytest.mark.parametrize("uri", ["https://example.org/a#b", "../data.md", "#here", ""])
def test_a_right_link_is_none(uri: str) -> None:
    assert malformed(uri) == ""
