"""Docstrings in Markdown: the little of reStructuredText that they use."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from textwrap import dedent

LITERAL = re.compile(r"(``.+?``|(?<![\w`])`[^`]+?`(?![\w`]))")
LINK = re.compile(r"`([^`<]+?) ?<([^>`]+)>`_+")
ROLE = re.compile(r":\w+(?::\w+)?:`~?([^`]+)`")


def inline(text: str) -> str:
    """Return a line or a paragraph in Markdown, in one line."""
    text = LINK.sub(r"[\1](\2)", " ".join(text.split()))
    pieces = LITERAL.split(ROLE.sub(r"`\1`", text))
    return "".join(_literal(piece) if at % 2 else _plain(piece) for at, piece in enumerate(pieces))


def _literal(piece: str) -> str:
    """Return code, with names of the package as users write them: `tos.fit`, `Run.status`."""
    name = piece.strip("`")
    found = re.fullmatch(r"tos_notebook((?:\.\w+)+)", name)
    if found is None:
        return f"`{name}`"
    parts = found[1].split(".")[1:]
    if len(parts) <= 2:
        return f"`tos.{'.'.join(parts)}`"
    first = next((at for at, part in enumerate(parts) if part[0].isupper()), len(parts) - 1)
    return f"`{'.'.join(parts[first:])}`"


def _plain(piece: str) -> str:
    return re.sub(r"([<>~])", r"\\\1", piece).replace("\\*", "*")


def paragraphs(lines: Iterable[str]) -> str:
    """Return paragraphs, lists and blocks of code in Markdown."""
    text = "\n".join(lines).strip("\n")
    blocks, literal = [], False
    for block in re.split(r"\n\s*\n", text):
        if not block.strip():
            continue
        if literal and block.startswith(" "):
            if blocks and blocks[-1].startswith("```"):
                blocks[-1] = blocks[-1].removesuffix("\n```") + f"\n\n{dedent(block)}\n```"
            else:
                blocks.append(f"```text\n{dedent(block)}\n```")
            continue
        literal = block.endswith("::")
        if block.strip().startswith(">>>"):
            blocks.append(f"```python\n{_without_marks(dedent(block))}\n```")
        elif re.match(r"\s*(?:[-*]|\d\.) ", block):
            blocks.append("\n".join(_items(dedent(block))))
        elif block.strip() != "::":
            blocks.append(inline(re.sub(r"::$", ":", block)))
    return "\n\n".join(blocks)


def _without_marks(block: str) -> str:
    return re.sub(r"\s+# doctest: \+\w+", "", block)


def _items(block: str) -> Iterable[str]:
    """Yield the items of a list, each in one line."""
    number = 0

    def counted(line: str) -> int:
        nonlocal number
        number += bool(re.match(r"(?:[-*]|\d\.) ", line))
        return number

    for _, lines in groupby(block.splitlines(), counted):
        mark, _, rest = " ".join(line.strip() for line in lines).partition(" ")
        yield f"{'-' if mark == '*' else mark} {inline(rest)}"
