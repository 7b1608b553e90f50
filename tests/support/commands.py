"""Command lines as the pages show them, with the addresses of a test."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from tests.docs.pages import sections

SHELL = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands(page: Path, heading: str) -> list[str]:
    """Return the command lines below a heading of a page."""
    blocks = SHELL.findall(sections(page)[heading])
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line]


def adapted(command: str, words: Mapping[str, str]) -> list[str]:
    """Return the words of a command line.

    Parameters
    ----------
    command : str
    words : mapping of str
        What a beginning of a word becomes, such as ``hdfs://`` another one.
    """
    return [_adapted(word, words) for word in shlex.split(command)]


def _adapted(word: str, words: Mapping[str, str]) -> str:
    for old, new in words.items():
        if word.startswith(old):
            return new + word.removeprefix(old)
    return word
