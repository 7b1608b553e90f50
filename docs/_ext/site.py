"""What this site needs of Sphinx: generated parts, links into the repository, links to elsewhere.

The pages are read on GitHub, too, where links lead to files. Here a link to a file that a page
shows leads to that page, a link to a folder is plain text, and any other file can be downloaded.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from docs._ext.generated import GENERATED, ROOT

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


class Generated(SphinxDirective):
    """Put in what `GENERATED` makes; the content is for readers of the file itself."""

    required_arguments = 1
    optional_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """Return the nodes."""
        name, *arguments = self.arguments
        if name not in GENERATED:
            raise self.error(f"Expected one of {', '.join(sorted(GENERATED))}; got {name!r}.")
        text = GENERATED[name](*arguments)
        return self.parse_text_to_nodes(text, allow_section_headings=True)


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
    app.add_directive("generated", Generated)
    app.connect("include-read", from_here)
    app.connect("doctree-read", lead_to_pages)
    app.connect("doctree-read", check_form)
    return {"parallel_read_safe": True, "version": "1"}
