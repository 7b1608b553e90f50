"""A run's settings: how they show, and by which names they are logged."""

from __future__ import annotations

from dataclasses import fields, replace

from IPython.lib.pretty import pretty

from tests.support.settings import SAMPLED, SETTINGS, TOGETHER


def test_a_cell_shows_a_line_for_each_setting() -> None:
    lines = pretty(SETTINGS).splitlines()
    assert len(lines) == len(fields(SETTINGS))
    assert lines[0] == "RunSettings(strategy='ps',"
    assert repr(SETTINGS).startswith("RunSettings(strategy='ps', lockstep=False, combiner=DynSGD(")


def test_a_combiner_that_there_is_not_is_not_shown() -> None:
    assert "combiner" not in pretty(TOGETHER) + repr(TOGETHER)
    assert "combiner" not in TOGETHER.by_name
    assert TOGETHER.strategy_text == "allreduce (of gradients, algorithm ring, chosen by auto)"
    assert SETTINGS.strategy_text == "ps"


def test_an_interval_is_not_shown_where_workers_exchange_once_in_an_epoch() -> None:
    assert "sync_interval=1" in repr(TOGETHER)
    assert "sync_interval" not in pretty(SAMPLED) + repr(SAMPLED)
    assert "sync_interval" not in SAMPLED.by_name


def test_a_log_gets_the_strategys_own_settings_among_the_others() -> None:
    found = replace(SETTINGS, own={"bucket": 4}).by_name
    assert found == SETTINGS.by_name | {"bucket": 4}
    assert (found["sync_interval"], "own" in found) == (10, False)
