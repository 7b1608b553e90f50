"""What a worker says of its update, and of what it joined it with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.worker.support import join, push
from tos_notebook.combiners import Downpour
from tos_notebook.coordination.settings import Settings
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps.exchange import ParameterExchange
from tos_notebook.strategies.ps.residual import ResidualStore
from tos_notebook.strategies.ps.settings import ServerSettings
from tos_notebook.wire.messages import Directive, Join, Joined, Push, Reply, Request
from tos_notebook.wire.settings import WorkerSettings

LAYOUT = Layout([ParameterSpec("x", (64,), "float32")])


class Recorder:
    """A connection to a server that takes every push."""

    def __init__(self) -> None:
        self.pushed: list[Push] = []

    def request(self, message: Request, *rest: Any) -> tuple[Any, memoryview | None]:
        if isinstance(message, Join):
            settings = Settings(ServerSettings(Downpour()), 1).for_worker()
            return Joined(0, 0, 0, 0, settings, 0, Directive.GO, False), None
        assert isinstance(message, Push)
        self.pushed.append(message)
        return Reply(1, 0, "committed", Directive.GO, None), LAYOUT.allocate().data


@pytest.mark.parametrize("codec", ["fp32", "bf16"])
@pytest.mark.parametrize("residual", [None, 1.0, 3e38])
def test_a_worker_looks_again_at_an_update_that_took_a_residual_along(
    codec: str, residual: float | None
) -> None:
    connection, memory = Recorder(), ResidualStore(LAYOUT.nbytes, None, "run", 0, 0)
    replica = ParameterExchange(connection, LAYOUT, memory)  # type: ignore[arg-type]
    replica.join(join())
    replica.vectors[0][:] = 0
    if residual is not None:
        memory.next()[:] = LAYOUT.pack([np.full(64, residual, np.float32)])
        memory.keep((0, 1))
    replica.use(WorkerSettings(1, None, {"pushes": "weights", "codec": codec}))
    # Parameters travel as they are: with a codec, those that the server does not know yet.
    finite = replica.write([np.full(64, 3e38, np.float32)])
    assert finite
    replica.push(push(finite=finite), lambda: None)
    assert connection.pushed[0].finite is (residual != 3e38)
