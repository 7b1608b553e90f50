"""The course on paper: notebooks, slides, cheat sheet and solutions as pages that print.

From the folder of the notebooks::

    python -m tos_workshop.handouts [FOLDER]
"""

from __future__ import annotations

import base64
import mimetypes
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

COURSE = Path(__file__).parents[1]
PAGES = COURSE.parent / "docs" / "tutorial"
"""Where slides and cheat sheet are; the course also works without this folder."""

PLOTLY = "application/vnd.plotly.v1+json"
SEEN = {"text/html", "image/png", "image/svg+xml"}
"""What a printed page can show of an output."""

FROM_ELSEWHERE = re.compile(r'<script[^>]*\ssrc="[^"]*"[^>]*>\s*</script>')

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 60em; color: #222; }
table { border-collapse: collapse; } td, th { border: 1px solid #bbb; padding: .2em .6em; }
code { font-size: 92%; } img { max-width: 100%; } .anchor-link { display: none; }
"""

SLIDES = """
.slide { border: 1px solid #ccc; border-radius: 8px; box-sizing: border-box; margin: 1em 0;
  padding: 1.5em 3em; aspect-ratio: 297 / 208; font-size: 1.35em; break-after: page; }
.slide:last-child { break-after: auto; }
@media print { @page { size: A4 landscape; margin: 0; } body { margin: 0; max-width: none; }
  .slide { border: 0; margin: 0; width: 297mm; height: 208mm; } }
"""

SHEET = """
body { columns: 2; column-gap: 2em; font-size: 11.5px; max-width: none; margin: 1em; }
table { break-inside: avoid; } h2 { break-after: avoid; }
h1 { column-span: all; font-size: 1.6em; margin: 0; } h2 { font-size: 1.2em; margin: .6em 0 .2em; }
p, ul { margin: .3em 0; } td, th { padding: .05em .4em; text-align: left; }
@media print { @page { size: A4; margin: 10mm; } body { margin: 0; } }
"""


def main(arguments: Sequence[str]) -> None:
    """Write all pages into a folder, ``handouts`` by default."""
    folder = Path(arguments[0] if arguments else "handouts")
    folder.mkdir(parents=True, exist_ok=True)
    pages = {path.stem: notebook(path) for path in sorted(COURSE.glob("*.ipynb"))}
    if PAGES.is_dir():
        pages |= {"slides": slides(), "cheat-sheet": sheet(), "solutions": page("solutions", "")}
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    print(f"{len(pages)} pages are in {folder.resolve()}. Open one in a browser and print it.")


def notebook(path: Path) -> str:
    """Return a notebook with its saved outputs as a page that needs no network."""
    import nbconvert
    import nbformat

    # Neither has types for these.
    read_from: Any = nbformat.read
    exporting: Any = nbconvert.HTMLExporter
    read = read_from(path, as_version=4)
    for cell in read.cells:
        for output in cell.get("outputs", ()):
            _show(output.get("data", {}))
    exporter = exporting(embed_images=True, exclude_input_prompt=True)
    text, _ = exporter.from_notebook_node(read, {"metadata": {"path": str(path.parent)}})
    # Answers are open on paper.
    return FROM_ELSEWHERE.sub("", text).replace("<details>", "<details open>")


def _show(data: dict[str, Any]) -> None:
    """Put words in the place of a figure that only a browser with a kernel's page draws."""
    if PLOTLY in data and not SEEN & data.keys():
        data["text/plain"] = "[Run this cell to see its figure.]"


def slides() -> str:
    """Return the slides, one on each printed page."""
    _, *parts = re.split(r"^(?=## )", _text("slides"), flags=re.MULTILINE)
    shown = "".join(f'<section class="slide">{_html(part)}</section>\n' for part in parts)
    return _page("Slides", SLIDES, shown)


def sheet() -> str:
    """Return the cheat sheet on one printed page."""
    return page("cheat-sheet", SHEET)


def page(name: str, style: str) -> str:
    """Return one of the pages of Markdown as a page that prints."""
    return _page(name, style, _html(_text(name)))


def _text(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def _html(text: str) -> str:
    """Return Markdown as HTML, with its pictures inside."""
    from nbconvert.filters import markdown2html

    return re.sub(r'(<img[^>]*\ssrc=")([^":]+)(")', _embedded, str(markdown2html(text)))


def _embedded(tag: re.Match[str]) -> str:
    picture = PAGES / tag[2]
    kind, _ = mimetypes.guess_type(picture)
    return f"{tag[1]}data:{kind};base64,{base64.b64encode(picture.read_bytes()).decode()}{tag[3]}"


def _page(title: str, style: str, body: str) -> str:
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}{style}</style></head>\n<body>\n{body}</body></html>\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
