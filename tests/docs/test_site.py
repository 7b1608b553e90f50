"""The site is built without a warning, and what is built holds together."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs.pages import ROOT


class Page(HTMLParser):
    """The links, anchors and pictures of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.unsaid: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.add(given.get("id") or "")
        for name in ("href", "src"):
            if given.get(name):
                self.links.append(given[name] or "")
        if tag == "img" and not given.get("alt"):
            self.unsaid.append(given.get("src") or "")


@cache
def page(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--fresh-env", "--fail-on-warning", "--keep-going", "--quiet"]
    command = [sys.executable, "-m", "sphinx", *options, "docs", str(folder)]
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_can_be_reached(site: Path) -> None:
    reached, waiting = set(), [site / "index.html"]
    while waiting:
        here = waiting.pop()
        if here in reached:
            continue
        reached.add(here)
        names = (unquote(link.partition("#")[0]) for link in page(here).links if ":" not in link)
        waiting += [(here.parent / n).resolve() for n in names if n.endswith(".html")]
    built = {path for path in site.rglob("*.html") if "_static" not in path.parts}
    assert {path.name for path in built - reached} <= {"search.html", "genindex.html"}


def test_links_lead_to_files_and_anchors_that_were_built(site: Path) -> None:
    for here in site.rglob("*.html"):
        for link in page(here).links:
            if ":" in link or link in ("#", ""):
                continue
            name, _, anchor = unquote(link).partition("#")
            target = (here.parent / name.partition("?")[0]).resolve() if name else here
            assert target.exists(), f"{here.name}: {link}"
            if anchor and target.suffix == ".html":
                assert anchor in page(target).anchors, f"{here.name}: {link}"


def test_nothing_is_loaded_from_elsewhere_and_pictures_have_words(site: Path) -> None:
    for here in site.rglob("*.html"):
        text = here.read_text(encoding="utf-8")
        assert 'src="http' not in text
        assert 'rel="stylesheet" href="http' not in text
        assert page(here).unsaid == []
