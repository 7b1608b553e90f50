"""The race of combiners: the same points each time, and none for a rule that breaks the laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tos_workshop
from tos_notebook.errors import CombinerError
from tos_workshop import races


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """One track is enough to compare rules."""
    monkeypatch.setattr(races, "TRACKS", (1,))


def capped(center: Any, update: Any, push: Any) -> Any:
    return center + np.clip(update, -0.02, 0.02)


def test_a_careful_rule_beats_one_that_trusts_a_broken_worker(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tos_workshop.race("downpour", capped)
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("capped")
    assert second.endswith("downpour")
    ahead, behind = (float(line.split()[0]) for line in (first, second))
    assert 60 < ahead < 100
    assert 0 <= behind < 30


def test_the_points_are_the_same_each_time() -> None:
    assert races.points(capped) == races.points(capped)


def test_a_rule_that_breaks_the_laws_does_not_start() -> None:
    score, words = races.points(lambda center, update, push: update)
    assert score == 0
    assert "an unchanged push leaves the center as it is" in words


def test_a_rule_that_fails_on_its_way_keeps_what_it_had() -> None:
    def tired(center: Any, update: Any, push: Any) -> Any:
        return capped(center, update, push) + (np.nan if push.pushes == 240 else 0)

    score, words = races.points(tired)
    assert 20 < score < races.points(capped)[0]
    assert "stopped by push 240" in words


def test_what_is_not_a_combiner_is_refused() -> None:
    with pytest.raises(CombinerError, match="Expected a combiner"):
        tos_workshop.race(3)
