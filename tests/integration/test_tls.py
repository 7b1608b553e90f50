"""Real Spark over TLS: as where executors are on other hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import counter
from tos_notebook.strategies.ps import trainer
from tos_notebook.training import session as session_module
from tos_notebook.transport import shared

ANY = "0.0.0.0"
"""For a client this host, too, but by none of its loopback addresses."""


@pytest.mark.parametrize(
    ("host", "asked"),
    [(None, False), (None, True), (ANY, False)],
    ids=["loopback", "loopback with TLS", "elsewhere"],
)
@pytest.mark.parametrize("share", [True, False], ids=["shared memory", "sockets only"])
def test_every_batch_counts_once_and_hosts_share_memory_with_tls_and_without(
    train: Callable[..., tos.TrainingSession],
    monkeypatch: pytest.MonkeyPatch,
    host: str | None,
    asked: bool,
    share: bool,
) -> None:
    attached: list[bool] = []

    def attach(name: str, nbytes: int) -> Any:
        found = shared.attach(name, nbytes) if share else None
        attached.append(found is not None)
        return found

    monkeypatch.setattr(trainer, "attach", attach)
    # A setting of Spark's, which is fixed when it starts.
    monkeypatch.setattr(session_module, "encrypts_loopback", lambda sc: asked)
    values = np.arange(2000.0)
    session = train(counter(), combiner="downpour", batch_size=10, server_host=host)
    run = session.run((values,), epochs=2)
    assert (run.parts.task.fingerprint is None) == (host is None and not asked)
    assert run.parameters()["total"].tolist() == [2 * values.sum(), 2 * 2000.0]
    assert attached == [share] * len(attached)
    assert attached
