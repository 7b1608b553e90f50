"""Code and tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable


def code(text: str) -> str:
    """Return text as code in Markdown, whatever is in it."""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def plain(text: str) -> str:
    """Return text in Markdown so that nothing in it is markup."""
    return re.sub(r"([\\`*_\[\]<>#$~])", r"\\\1", text)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in lines
    )
