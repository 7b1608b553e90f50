"""Each program of a room has a short name, and rooms share code through `lib` only."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import benchmarks
from benchmarks.__main__ import MODULES, ROOMS

FOLDER = Path(benchmarks.__file__).parent
ROOT = FOLDER.parent


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


@pytest.mark.parametrize("room", ROOMS)
def test_the_page_names_the_programs_of_a_room(room: str) -> None:
    names = ", ".join(f"`{name}`" for name in ROOMS[room])
    assert f"\n| `{room}` | {names} |" in (ROOT / "docs/benchmarks.md").read_text("utf-8")


def test_the_page_says_what_each_program_compares() -> None:
    page = (ROOT / "docs/benchmarks.md").read_text("utf-8")
    table = page.partition("## What each program compares")[2].partition("##")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == list(MODULES)


def _modules(room: str) -> list[Path]:
    return [path for path in (FOLDER / room).glob("*.py") if path.stem != "__init__"]
