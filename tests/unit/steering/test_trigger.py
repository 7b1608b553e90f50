"""What is said of a time can be read again, since a saved run is resumed from it."""

from __future__ import annotations

import pytest

from tos_notebook.steering.trigger import as_trigger


@pytest.mark.parametrize("text", ["0.5s", "30s", "2h", "1000000s", "300h", "500 milestones"])
def test_a_saved_time_is_read_back(text: str) -> None:
    trigger = as_trigger("checkpoint_every", text)
    assert as_trigger("checkpoint_every", str(trigger)) == trigger
