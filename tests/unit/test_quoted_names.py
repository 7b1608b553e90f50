"""What messages tell people to call is there to be called."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

PACKAGE = Path(__file__).parents[2] / "tos_notebook"
QUOTED = re.compile(r"(?<![\w.`])(tf|keras|tos)((?:\.[A-Za-z_]\w*)+)")
MODULES = {"tf": "tensorflow", "keras": "keras", "tos": "tos_notebook"}


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield the sentences of a module, pieces of one message as one; a single word is a key."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values
            )
        elif isinstance(node, ast.Constant) and " " in str(node.value):
            yield str(node.value)


def quoted() -> dict[str, str]:
    """Return the names that strings and docstrings of the package quote, and a file of each."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for text in texts(ast.parse(path.read_text("utf-8"))):
            for module, rest in QUOTED.findall(text):
                found.setdefault(module + rest, str(path.relative_to(PACKAGE)))
    return found


def is_there(name: str) -> bool:
    """Whether a name is there; of TensorFlow's, in the API of graphs, too."""
    head, *parts = name.split(".")
    places = [MODULES[head], *(["tensorflow.compat.v1"] if head == "tf" else [])]
    return any(_resolves(importlib.import_module(place), parts) for place in places)


def _resolves(value: object, parts: list[str]) -> bool:
    for part in parts:
        if not hasattr(value, part) and isinstance(value, ModuleType):
            with suppress(ImportError):
                importlib.import_module(f"{value.__name__}.{part}")
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


def test_every_name_that_a_message_quotes_exists() -> None:
    found = quoted()
    assert {"tf.reduce_mean", "tos.capture", "tos.columns"} <= found.keys()
    missing = {name: file for name, file in found.items() if not is_there(name)}
    assert missing == {}


@pytest.mark.parametrize("name", ["tf.reducemean_of", "keras.optimizer.SGD", "tos.column"])
def test_a_name_that_is_nowhere_is_found_out(name: str) -> None:
    assert not is_there(name)
