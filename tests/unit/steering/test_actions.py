"""The table of commands against what they call."""

from __future__ import annotations

import inspect

import pytest

from tools.palette import FILE, palette
from tos_notebook.errors import ConfigError
from tos_notebook.steering.actions import ACTIONS
from tos_notebook.steering.machine import Command
from tos_notebook.training.run import Run


def test_every_command_is_in_the_table_and_has_a_magic_of_its_own() -> None:
    assert list(ACTIONS) == list(Command)
    assert len({action.magic for action in ACTIONS.values()}) == len(Command)


@pytest.mark.parametrize("name", sorted(set(Command) - {Command.CHAOS}))
def test_a_run_has_a_method_with_these_arguments(name: str) -> None:
    action = ACTIONS[name]
    taken = inspect.signature(getattr(Run, action.method)).parameters
    assert {argument.name for argument in action.arguments} <= set(taken)
    needed = {n for n, p in taken.items() if p.default is p.empty and n != "self"}
    assert needed <= {argument.name for argument in action.arguments if not argument.optional}


def test_settings_are_any_of_their_arguments_but_at_least_one() -> None:
    action = ACTIONS[Command.SET]
    assert action.is_settings
    assert action.checked({"sync": "bsp"}) == {"sync": "bsp"}
    with pytest.raises(ConfigError, match=r"^set: expected sync, .*; got {}"):
        action.checked({})


def test_a_command_without_arguments_takes_none() -> None:
    action = ACTIONS[Command.PAUSE]
    assert not action.is_settings
    assert action.checked({}) == {}
    with pytest.raises(ConfigError, match="expected no argument"):
        action.checked({"why": 1})


def test_the_palette_of_jupyterlab_has_what_the_table_says() -> None:
    assert FILE.read_text(encoding="utf-8") == palette(), "Run: python -m tools.palette"


def test_the_palette_asks_for_choices_and_whole_numbers_alone() -> None:
    titled = [action for action in ACTIONS.values() if action.title]
    arguments = [argument for action in titled for argument in action.arguments]
    assert arguments
    # What has no label is an option of the magic, and no field.
    asked = [a for a in arguments if a.label or not a.flag]
    assert all(a.label and not a.optional and (a.offers or a.kind is int) for a in asked)
