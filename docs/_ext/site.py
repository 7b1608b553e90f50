"""What this site needs of Sphinx: contents, included files, links to files and elsewhere.

The pages are read on GitHub, too, where links lead to files. Here a link to a file that a page
shows leads to that page, a link to a folder is plain text, and any other file can be downloaded.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = Path(__file__).parents[2]

logger = logging.getLogger(__name__)

PAGES = {
    "README.md": "index",
    "SECURITY.md": "how-to/security",
    "CHANGELOG.md": "changelog",
    "benchmarks/papers/RESULTS.md": "papers",
}
"""Files outside of docs/ that a page shows."""

RELATIVE = re.compile(r"(?<=\]\()(?![a-z]+:|[#/])([^)#\s]+)")
"""Where a link in Markdown leads to a file."""

HOST = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}")


COMMENT = re.compile(r"^<!-- toctree\n(.*?)^-->$", re.DOTALL | re.MULTILINE)
INCLUDE = re.compile(r"^<!-- include (\S+) -->\n")


def with_directives(app: Sphinx, docname: str, content: list[str]) -> None:
    """Make directives of what stands in comments, so that it does not show where nothing is built.

    A page that begins with ``<!-- include FILE -->`` is that file; what follows leads there.
    """
    text = COMMENT.sub(r"```{toctree}\n\1```", content[0])
    included = INCLUDE.match(text)
    content[0] = f"```{{include}} {included[1]}\n```\n" if included else text


def from_here(app: Sphinx, included: Path, docname: str, content: list[str]) -> None:
    """Let the links of an included file lead from the page to where they led from the file."""
    folder = (Path(app.srcdir) / included).resolve().parent
    page = Path(app.env.doc2path(app.env.docname)).parent

    def moved(link: re.Match[str]) -> str:
        return os.path.relpath(folder / link[1], page)

    content[0] = RELATIVE.sub(moved, content[0])


def lead_to_pages(app: Sphinx, doctree: nodes.document) -> None:
    """Turn links to files that a page shows into links to it, and links to folders into text."""
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node.get("reftype") != "myst":
            continue
        # MyST takes any Markdown for a page, and cuts its suffix.
        suffix = ".md" if node.get("refdomain") == "doc" else ""
        inside = _inside(app, node["reftarget"] + suffix)
        if inside in PAGES:
            node["reftarget"] = PAGES[inside]
        elif inside and (ROOT / inside).is_dir():
            node.replace_self(node.children)


def _inside(app: Sphinx, target: str) -> str:
    """Return where in the repository a link leads; empty if out of it."""
    path = (Path(app.env.doc2path(app.env.docname)).parent / target).resolve()
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""


def check_form(app: Sphinx, doctree: nodes.document) -> None:
    """Warn of links to elsewhere that cannot be right; nothing is fetched."""
    for node in doctree.findall(nodes.reference):
        problem = malformed(node.get("refuri", ""))
        if problem:
            logger.warning("%s: %s", node["refuri"], problem, location=node, type="links")


def malformed(uri: str) -> str:
    """Return what is wrong with the form of an absolute link; empty if nothing is."""
    parts = urlsplit(uri)
    if not parts.scheme:
        return ""
    if parts.scheme != "https":
        return f"expected https, got {parts.scheme}."
    if not HOST.fullmatch(parts.netloc):
        return f"expected a host's name, got {parts.netloc!r}."
    if re.search(r"\s|[.,;:]$", uri):
        return "expected no space, and no full stop or comma at its end."
    return ""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register all of it."""
    app.connect("source-read", with_directives)
    app.connect("include-read", from_here)
    app.connect("doctree-read", lead_to_pages)
    app.connect("doctree-read", check_form)
    return {"parallel_read_safe": True, "version": "1"}
