"""`check_strategy` passes the strategies that are there, and names what one does wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tos_notebook as tos
from tos_notebook.combiners import Downpour
from tos_notebook.errors import StrategyCheckFailed
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.push import Copied
from tos_notebook.strategies.ps.strategy import ParameterServer
from tos_notebook.strategies.ps.trainer import ServerTrainer


def test_the_parameter_server_keeps_every_law() -> None:
    report = tos.testing.check_strategy(ParameterServer())
    assert {finding.outcome for finding in report.findings} == {"ok"}
    assert "all checks hold" in repr(report)


class Half(Downpour):
    """Merges half of each change."""

    def merge(self, center: Any, update: Any, push: Any) -> None:
        super().merge(center, update / 2 if update.dtype.kind == "f" else update, push)


class Forgets(ServerTrainer):
    """Continues from a checkpoint with the parameters that it began with."""

    def restore(self, copied: Copied) -> None:
        pass


class Merges(ParameterServer):
    def trainer(self, layout: Any, initial: Any, settings: Any) -> ServerTrainer:
        return ServerTrainer(Center(layout, initial, Half()))


class Begins(ParameterServer):
    def trainer(self, layout: Any, initial: Any, settings: Any) -> ServerTrainer:
        return Forgets(Center(layout, initial, settings.strategy.combiner))


@pytest.mark.parametrize(
    ("strategy", "law"),
    [
        (Merges, "one worker trains as one process does"),
        (Merges, "every batch counts once"),
        (Begins, "a run continues from its checkpoint"),
    ],
)
def test_a_law_that_is_broken_is_named(strategy: Callable[[], Any], law: str) -> None:
    with pytest.raises(StrategyCheckFailed) as caught:
        tos.testing.check_strategy(strategy())
    assert f"FAILED   {law}: expected" in str(caught.value)
