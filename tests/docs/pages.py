"""The pages of the documentation as text: their headings, and what is below each."""

from __future__ import annotations

import re
from collections import UserDict
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

FENCE = re.compile(r"^(`{3,}|:{3,}).*?^\1$", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"<!-- run -->\n```python\n(.*?)```", re.DOTALL)
HEADING = re.compile(r"^(#{1,6}) (.+)$", re.MULTILINE)


class Sections(UserDict[str, str]):
    """What is below each heading of a page, down to the next one."""

    def __init__(self, text: str) -> None:
        # As long as it was, so that places stay.
        bare = FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), text)
        heads = [(m[2], m.start(), m.end(), len(m[1])) for m in HEADING.finditer(bare)]
        ends = [start for _, start, _, _ in heads[1:]] + [len(text)]
        super().__init__({h[0]: text[h[2] : end] for h, end in zip(heads, ends, strict=True)})
        self.levels = {name: level for name, _, _, level in heads}


def sections(path: Path) -> Sections:
    """Return a page's sections by their headings."""
    return Sections(path.read_text(encoding="utf-8"))


def slug(heading: str) -> str:
    """Return the anchor that GitHub and the site give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def programs(path: Path) -> dict[str, str]:
    """Return the code of a page that is to run, by the heading that it is below."""
    found = {name: "\n".join(BLOCK.findall(text)) for name, text in sections(path).items()}
    return {name: code for name, code in found.items() if code}
