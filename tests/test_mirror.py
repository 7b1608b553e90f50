"""Which pushes one thread answers for all connections."""

from __future__ import annotations

import pytest

from tos_notebook.mirror import Mirror
from tos_notebook.params import Layout, ParameterSpec


@pytest.mark.parametrize(
    ("values", "shared", "brief"),
    [(7850, False, True), (100_000, False, False), (100_000, True, True), (300_000, True, False)],
)
def test_what_is_short_on_the_wire_and_of_one_stripe_is_brief(
    values: int, shared: bool, brief: bool
) -> None:
    layout = Layout([ParameterSpec("x", (values,), "float32")])
    assert Mirror(layout, layout.allocate() if shared else None).brief is brief
