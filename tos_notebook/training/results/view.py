"""What observers and results need of a run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from ...chaos.rules import Rule
from ...common.rows import Rows
from ...steering.status import RunStatus
from .settings import RunSettings

if TYPE_CHECKING:
    import pandas as pd

    from ...program.export.base import Program


class RunView(Protocol):
    """A run as those see it who follow it; `tos_notebook.Run` says what each part is."""

    run_id: str
    number: int
    name: str | None
    master: str
    program: Program
    own_rate: float | None
    chaos_log: tuple[Rule, ...]

    @property
    def state(self) -> str:
        """See `Run.state`."""

    @property
    def status(self) -> RunStatus:
        """See `Run.status`."""

    @property
    def settings(self) -> RunSettings:
        """See `Run.settings`."""

    @property
    def events(self) -> Rows:
        """See `Run.events`."""

    @property
    def history(self) -> pd.DataFrame:
        """See `Run.history`."""

    @property
    def validation(self) -> pd.DataFrame:
        """See `Run.validation`."""

    def stop(self, timeout: float = ..., *, reason: str | None = ...) -> RunView:
        """See `Run.stop`."""

    def set(self, *, learning_rate: float | None = ..., sync_interval: int | None = ...) -> None:
        """See `Run.set`."""

    def save(self, target: str | os.PathLike[str], format: str | None = ...) -> str:
        """See `Run.save`."""

    def model_card(self, path: str | os.PathLike[str]) -> str:
        """See `Run.model_card`."""
