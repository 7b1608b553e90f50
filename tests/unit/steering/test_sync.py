"""The names of sync modes."""

from __future__ import annotations

from typing import Any

import pytest

from tos_notebook.errors import ConfigError
from tos_notebook.steering.sync import ASP, BSP, SyncMode, as_sync


@pytest.mark.parametrize(
    ("name", "mode", "text"),
    [
        ("asp", ASP, "asp"),
        ("BSP", BSP, "bsp"),
        ("async", ASP, "asp"),
        ("Sync", BSP, "bsp"),
        ("bounded:3", SyncMode(3), "ssp:3"),
        ("ssp:0", BSP, "bsp"),
        ("ssp:3", SyncMode(3), "ssp:3"),
        (" Ssp:12 ", SyncMode(12), "ssp:12"),
        (SyncMode(2), SyncMode(2), "ssp:2"),
    ],
)
def test_a_name_stands_for_one_mode_and_comes_back(name: Any, mode: SyncMode, text: str) -> None:
    assert as_sync(name) == mode
    assert str(as_sync(name)) == text
    assert as_sync(str(mode)) == mode


@pytest.mark.parametrize(
    "value", ["", "ssp", "ssp:", "ssp:-1", "ssp:1.5", "bounded", 3, None, True]
)
def test_what_is_no_mode_is_refused_with_those_there_are(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"expected 'asp'.*'ssp:3'.*'bsp'"):
        as_sync(value)
