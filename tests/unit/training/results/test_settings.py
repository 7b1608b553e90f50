"""A run's settings: how they show, and by which names they are logged."""

from __future__ import annotations

from dataclasses import fields, replace

from IPython.lib.pretty import pretty

from tests.support.settings import SETTINGS


def test_a_cell_shows_a_line_for_each_setting() -> None:
    lines = pretty(SETTINGS).splitlines()
    assert len(lines) == len(fields(SETTINGS))
    assert lines[0] == "RunSettings(strategy='ps',"


def test_a_log_gets_the_strategys_own_settings_among_the_others() -> None:
    found = replace(SETTINGS, own={"bucket": 4}).by_name
    assert found == SETTINGS.by_name | {"bucket": 4}
    assert (found["sync_interval"], "own" in found) == (10, False)
