"""What people read outside of the pages: notebooks, hints of exercises, the view, magics."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat

from tests.docs.pages import ROOT

COURSE = ROOT / "notebooks"
FRONT_END = ROOT / "labextension"
NOTEBOOKS = sorted(COURSE.glob("*.ipynb"))
CODE = {"solutions.py", "handouts.py"}
"""Modules of the course whose strings are Python and CSS."""
SAID = [
    *sorted(path for path in (COURSE / "tos_workshop").glob("*.py") if path.name not in CODE),
    *sorted((ROOT / "examples").glob("*.py")),
    *sorted((ROOT / "tos_notebook/magics").rglob("*.py")),
    *sorted((ROOT / "tos_notebook/widgets").rglob("*.py")),
    *sorted((ROOT / "tos_notebook/training/observers").rglob("*.py")),
]
"""Modules whose strings are shown to people."""

TAG = re.compile(r"</?(?:details|summary)[^>]*>")
REMARK = re.compile(r"(?:^|\s)#\s(?!NBVAL)(.*)", re.MULTILINE)
BETWEEN = re.compile(r'"\s*\+\s*"')
TRANSLATED = re.compile(r'(?:\bt|\btn|\b_+n?)\(\s*((?:"(?:[^"\\]|\\.)*"[,\s]*)+)')
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


def notebook(path: Path) -> str:
    """Return the text of a notebook, and the comments of its code."""
    cells = nbformat.read(path, as_version=4).cells
    texts = [
        cell.source if cell.cell_type == "markdown" else "\n\n".join(REMARK.findall(cell.source))
        for cell in cells
    ]
    return TAG.sub("\n\n", "\n\n".join(texts))


def said(path: Path) -> Iterator[str]:
    """Yield a module's sentences, without its docstrings; an `X` stands for what varies."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


def shown() -> Iterator[str]:
    """Yield what view and plugin show, and the words of the plugin's settings."""
    for path in sorted((FRONT_END / "src").rglob("*.ts")):
        source = BETWEEN.sub("", path.read_text(encoding="utf-8"))
        for call in TRANSLATED.findall(source):
            yield from QUOTED.findall(call)
    schema = json.loads((FRONT_END / "schema/plugin.json").read_text(encoding="utf-8"))
    yield from _words(schema)


def _words(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, str) and name in {"title", "description"}:
                yield inner
            else:
                yield from _words(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _words(inner)
