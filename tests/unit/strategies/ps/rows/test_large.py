"""Tables of more bytes than a worker takes from a server by default."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps.replica import Replica
from tos_notebook.strategies.ps.rows import payload
from tos_notebook.strategies.ps.shards import link
from tos_notebook.strategies.ps.shards.slices import Slice
from tos_notebook.transport import dial
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.client import MAX_PAYLOAD
from tos_notebook.wire.messages import Attach, Encoding
from tos_notebook.worker.task import Task

LARGE = Layout([ParameterSpec("users", (1 << 29, 4), "float32", by_row=True)])


class Asked(Exception):
    """Carries what a connection is asked to take."""


def _ask(*_: Any, max_payload: int, **__: Any) -> Any:
    raise Asked(max_payload)


def test_a_worker_takes_all_rows_of_a_large_table_from_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They come into a buffer of their own: before, it is unknown how many they are."""
    monkeypatch.setattr(dial, "connect_tcp", _ask)
    nothing = cast(Any, None)
    task = Task("127.0.0.1", 1, new_secret(), None, "program", 1, nothing, nothing)
    with pytest.raises(Asked) as asked:
        task._connect(LARGE)
    assert asked.value.args[0] >= payload.longest(LARGE, False) > MAX_PAYLOAD


def test_a_worker_takes_all_rows_of_a_large_table_from_a_shard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "connect_tcp", _ask)
    replica = Replica(LARGE, np.empty(0, np.uint8), cast(Any, None), 0)
    shard = link.ShardLink(replica, Slice(0, LARGE.nbytes, 1, LARGE))
    attach, encoding = Attach("run", 0, 0, 0, 0, 1), Encoding("delta", "fp32", by_row=True)
    with pytest.raises(Asked) as asked:
        shard.attach(link.Place("127.0.0.1", 1, None), new_secret(), attach, encoding)
    assert asked.value.args[0] >= payload.longest(LARGE, False) > MAX_PAYLOAD
