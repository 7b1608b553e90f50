"""Each program of a room has a short name, and rooms share code through `lib` only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import benchmarks
from benchmarks.__main__ import MODULES, ROOMS

FOLDER = Path(benchmarks.__file__).parent


def test_the_short_names_are_those_of_all_programs() -> None:
    found = {(path.parent.name, path.stem) for room in ROOMS for path in _modules(room)}
    assert found == {(room, name) for room, names in ROOMS.items() for name in names}
    assert len(MODULES) == len(found)


def test_every_package_is_a_room_or_shared_or_has_a_command_of_its_own() -> None:
    packages = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    assert packages == {*ROOMS, "lib", "papers"}


@pytest.mark.parametrize("room", [*ROOMS, "lib", "papers"])
def test_a_package_says_in_one_sentence_what_is_in_it(room: str) -> None:
    said = ast.get_docstring(ast.parse((FOLDER / room / "__init__.py").read_text("utf-8")))
    assert said is not None
    assert said.index(".") == len(said) - 1


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_from_no_other_room(room: str) -> None:
    imported = {
        node.module.split(".")[0]
        for path in _modules(room)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level == 2 and node.module
    }
    assert imported <= {"lib"}


def _modules(room: str) -> list[Path]:
    return [path for path in (FOLDER / room).glob("*.py") if path.stem != "__init__"]
