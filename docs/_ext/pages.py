"""Write into the pages what comes from the code: ``python -m docs._ext.pages``.

A page says in a comment what belongs below it, down to ``<!-- end -->``:
``<!-- generated NAME -->`` for what `GENERATED` makes, or ``<!-- api`` with directives for the
reference. So people can read a page without building anything. ``--check`` writes nothing, and
ends with 1 if a page is stale.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from sphinx.ext.autodoc.mock import mock

from docs._ext.generated import GENERATED, ROOT
from docs._ext.reference import reference

BLOCK = re.compile(
    r"^(<!-- (generated|api)\b(.*?)-->\n)(.*?)^<!-- end -->$", re.DOTALL | re.MULTILINE
)
DOCS = ROOT / "docs"


def fresh(text: str) -> str:
    """Return a page with what the code says now."""

    def written(block: re.Match[str]) -> str:
        begin, kind, wanted, _ = block.groups()
        if kind == "api":
            made = reference(wanted)
        else:
            name, *arguments = wanted.split()
            made = GENERATED[name](*arguments)
        return f"{begin}\n{made}\n\n<!-- end -->"

    return BLOCK.sub(written, text)


def stale() -> Iterator[tuple[Path, str]]:
    """Yield the pages that are out of date, with what they should be."""
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        now = fresh(text)
        if now != text:
            yield path, now


def main(arguments: list[str]) -> int:
    """Write the pages, or look at them; return the exit status."""
    # They take ten seconds to import, and no docstring needs them.
    with mock(["keras", "tensorflow"]):
        found = list(stale())
    for path, text in found:
        print(path.relative_to(ROOT))
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
    return int(bool(found) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
