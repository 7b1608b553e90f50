"""Which pushes one thread answers for all connections, and what the server must look at."""

from __future__ import annotations

import numpy as np
import pytest

from tos_notebook.codecs.coding import Coding
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps.peer_replica import PeerReplica


@pytest.mark.parametrize(
    ("values", "shared", "brief"),
    [(7850, False, True), (100_000, False, False), (100_000, True, True), (300_000, True, False)],
)
def test_what_is_short_on_the_wire_and_of_one_stripe_is_brief(
    values: int, shared: bool, brief: bool
) -> None:
    layout = Layout([ParameterSpec("x", (values,), "float32")])
    assert PeerReplica(layout, layout.allocate() if shared else None).brief is brief


@pytest.mark.parametrize("pushes", ["delta", "weights"])
def test_parameters_that_are_added_up_here_are_none_that_the_worker_has_seen(pushes: str) -> None:
    """The sum of what it knows and of a difference, each finite, may be infinite."""
    layout, codecs = Layout([ParameterSpec("x", (64,), "float32")]), as_codecs("bf16")
    mirror, up = PeerReplica(layout, None), Coding(layout, codecs).up
    assert up is not None
    mirror.use(codecs)
    large = layout.pack([np.full(64, 3e38, np.float32)])
    mirror.buffer[:] = large
    mirror.reply(0)
    into = mirror.receive_into(up.nbytes)
    assert into is not None
    into[:] = up.encode(large, 0).data
    assert mirror.read(pushes) is (pushes == "delta")
    assert np.isfinite(layout.vectors(mirror.buffer)[0]).all() == (pushes == "delta")
