"""Texts that came from elsewhere, made fit to be stored, sent and shown."""

from __future__ import annotations

import re
import sys
from collections.abc import Container
from typing import Any

_STYLES = re.compile(r"\x1b\[[0-9;]*m")
"""Colors of a terminal, as in Keras' messages."""

_UNREADABLE = re.compile(
    # Control characters but tab and line feed; surrogates, which are not UTF-8; other ends of a
    # line; and what turns the direction of text, by which a line shows other words than it has.
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)

_MARKUP = re.compile(r"[\\`*\[\]<>|~&$]|(?<!\w)_|_(?!\w)")
"""What means something inside a paragraph or a table of Markdown."""

LONGEST_NAME = 256
"""Characters of a name that travels."""

_DECORATION = re.compile(
    r"Graph execution error:|^Detected at node.*|^\s*<stack traces unavailable>|^Node: '.*'$"
    r"|\[\[\{\{(?:function_)?node .*|\{\{function_node [^}]*\}\}\s*|\[Op:.*\](?: name:.*)?"
    r"|^.*root error\(s\) found\.|^\s*\(\d+\) [A-Z_ ]+: "
    r'|^\s*File ".*", line \d+, in .*'
    r"|^\s*From /job:\S+:|^\s*=+\s*$|^Additional GRPC error information.*"
)
"""What TensorFlow puts around the sentence that says what is wrong."""


_FILE = re.compile(r'File "([^"\n]+)"(?=, line \d)')
"""Of a frame, as Python prints it."""


def is_readable(text: str) -> bool:
    """Return whether a text is UTF-8 without control characters, but for tab and line feed."""
    return _UNREADABLE.search(text) is None


def readable(text: str, most: int | None = None) -> str:
    """Return a text without the colors of a terminal, and with escapes for what is not readable.

    Parameters
    ----------
    text : str
    most : int, optional
        Characters that are kept; see `shortened`.
    """
    found = _UNREADABLE.sub(_escape, _STYLES.sub("", text))
    return found if most is None else shortened(found, most)


def few_digits(value: object) -> str:
    """Return a value as text, a float with six digits: 0.009, not 0.009000000000000001."""
    return str(float(f"{value:.6g}") if isinstance(value, float) else value)


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters; a longer one with "…" for its middle."""
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end - 1]}…{text[len(text) - end :]}"


def one_line(text: str, most: int | None = None) -> str:
    """Return a readable text with escapes for tabs and line feeds, too; see `readable`."""
    found = readable(text).replace("\t", "\\t").replace("\n", "\\n")
    return found if most is None else shortened(found, most)


def as_markdown(text: str) -> str:
    """Return Markdown, for a paragraph or a cell of a table, that shows a text as it is."""
    return _MARKUP.sub(r"\\\g<0>", one_line(text))


def free_name(name: str, taken: Container[str]) -> str:
    """Return a metric's name with the suffix ``_metric``, as often as it takes to be no other's."""
    while name in taken:
        name += "_metric"
    return name


def all_readable(value: Any) -> Any:
    """Return plain data with each text readable, and lists in place of tuples."""
    if isinstance(value, str):
        return value if is_readable(value) else readable(value)
    if isinstance(value, dict):
        return {all_readable(name): all_readable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [all_readable(item) for item in value]
    return value


def counted(count: int, noun: str, many: str = "") -> str:
    """Return such as ``1 epoch`` or ``1,200 epochs``; `many` is a plural that needs more than s."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def numbered(number: int, name: str | None) -> str:
    """Return a run as people call it behind the word: ``2``, or ``2 (wide)`` if it has a name."""
    return str(number) if name is None else f"{number} ({name})"


def amount(count: float) -> str:
    """Return bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        # From there on three digits are 1e+03.
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def summary(error: BaseException) -> str:
    """Return an error's type and what it says is wrong, without TensorFlow's dump of nodes.

    Returns
    -------
    str
        ``TypeName: text``, one line.
    """
    return f"{type(error).__name__}: {sentence(str(error)) or 'no message'}"


def sentence(text: str) -> str:
    """Return the first line of an error's text that says what is wrong; empty if none does."""
    lines = (readable(_DECORATION.sub("", line)).strip() for line in text.splitlines())
    return next(filter(None, lines), "")


def ipython_shell() -> Any:
    """Return the shell of IPython that runs this process; None if none does."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def with_cells(text: str) -> str:
    """Return frames of a traceback with the names of cells, such as ``Cell In[13]``.

    The code of a cell has a made-up file name, which only the shell that executed it knows.
    """
    shell = ipython_shell()
    if shell is None:
        return text

    def name(found: re.Match[str]) -> str:
        cell = shell.compile.format_code_name(found[1])
        return found[0] if cell is None else " ".join(cell)

    return _FILE.sub(name, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
