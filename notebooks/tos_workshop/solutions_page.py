"""The page of solutions for teachers: ``python -m tos_workshop.solutions_page`` writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from .handouts import COURSE, PAGES
from .solutions import SOLUTIONS

PAGE = PAGES / "solutions.md"

CHECK = re.compile(r'tos_workshop\.check\(\s*"([^"]+)"')

HEAD = """\
# Solutions

For teachers. Each exercise of the course has a solution here. Other answers can be right as well:
the check in the notebook decides.

Students see a solution with `tos_workshop.solution("first_steps.milestones")`, after they have
tried three different answers or solved the exercise.

A command writes this page, in the folder of the notebooks: `python -m tos_workshop.solutions_page`.
"""


def text() -> str:
    """Return the page, in the order of the notebooks."""
    return HEAD + "".join(map(_chapter, sorted(COURSE.glob("*.ipynb"))))


def _chapter(path: Path) -> str:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    title = cells[0]["source"][0].strip("# \n")
    number = path.stem.partition("_")[0]
    link = f"[{path.name}](../../notebooks/{path.name})"
    parts = "".join(
        f"\n### `{name}`\n\n```python\n{SOLUTIONS[name]}\n```\n" for name in _asked(cells)
    )
    return f"\n## {number} · {title}\n\nNotebook: {link}\n{parts}"


def _asked(cells: list[dict[str, list[str]]]) -> Iterator[str]:
    for cell in cells:
        yield from CHECK.findall("".join(cell["source"]))


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
    print(f"Wrote {PAGE.name}.")
