"""Rows of plain values that show as a table."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from html import escape
from itertools import zip_longest
from typing import Any, Self

from ..readable import few_digits

WIDTH = 100
"""Characters of a line of the table as text."""

NARROW = 12
"""Characters that a column has at least where there is not room for all of its text."""


class Rows(list[dict[str, Any]]):
    """A list of dicts with the same keys, which shows as a table in a cell and in a terminal."""

    def head(self, n: int = 5) -> Self:
        """Return the first rows, as a table again.

        Parameters
        ----------
        n : int
            Rows at most. Below 0, all rows but the last ``-n``, as for a DataFrame.
        """
        return type(self)(self[:n])

    def _texts(self) -> list[list[str]]:
        """Return the names of the columns, and the rows, as text."""
        return [list(self[0]), *([_text(value) for value in row.values()] for row in self)]

    def __repr__(self) -> str:
        if not self:
            return "[]"
        texts = self._texts()
        widths = _widths([max(map(len, column)) for column in zip(*texts, strict=True)])
        lines: list[str] = []
        for row in texts:
            cells = [textwrap.wrap(t, w) or [""] for t, w in zip(row, widths, strict=True)]
            lines += [_line(parts, widths) for parts in zip_longest(*cells, fillvalue="")]
            if row is texts[0]:
                lines.append(_line(["-" * width for width in widths], widths))
        return "\n".join(lines)

    def _repr_html_(self) -> str | None:
        if not self:
            return None
        left = ' style="text-align: left; vertical-align: top"'
        head, *rows = ([escape(text) for text in row] for row in self._texts())
        parts = ["<table>", "<thead><tr>", *(f'<th scope="col"{left}>{t}</th>' for t in head)]
        parts.append("</tr></thead><tbody>")
        for first, *rest in rows:
            cells = "".join(f"<td{left}>{text}</td>" for text in rest)
            parts.append(f'<tr><th scope="row"{left}>{first}</th>{cells}</tr>')
        return "\n".join([*parts, "</tbody></table>"])


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        items = ((n, few_digits(i) if isinstance(i, float) else repr(i)) for n, i in value.items())
        return ", ".join(f"{name}={item}" for name, item in items)
    return "" if value is None else few_digits(value)


def _line(parts: Any, widths: list[int]) -> str:
    return "  ".join(part.ljust(w) for part, w in zip(parts, widths, strict=True)).rstrip()


def _widths(wanted: list[int]) -> list[int]:
    """Return widths that fit into a line: the widest columns share what the others leave."""
    room = WIDTH - 2 * (len(wanted) - 1)
    widths = list(wanted)
    while sum(widths) > room and max(widths) > NARROW:
        widths[widths.index(max(widths))] -= 1
    return widths
