"""What strategies have in common whose workers make each step together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...common.arrays import Array
from ...steering.machine import Command
from ...steering.sync import BSP, SyncMode
from ...worker.exchange import ExchangeMaker
from ..ps import residual
from ..ps.exchange import exchange
from .trainer import Copied


class Lockstep:
    """The part of a `Strategy` that does not depend on what makes the step."""

    __slots__ = ()
    commands = frozenset(Command) - {Command.SWAP_COMBINER}
    default_sync = BSP
    tasks = 0

    @property
    def exchange(self) -> ExchangeMaker:
        """See `Strategy.exchange`."""
        return exchange

    def sweep(self, folder: Path, run_id: str) -> None:
        """See `Strategy.sweep`."""
        residual.sweep(folder, run_id)

    def default_combiner(self, sync: SyncMode) -> None:
        """See `Strategy.default_combiner`: it has none."""
        return

    def own_combiner(self, value: Mapping[str, Any]) -> None:
        """See `Strategy.own_combiner`."""
        return

    def to_parts(self, copied: Copied) -> tuple[dict[str, Any], list[Array]]:
        """See `Strategy.to_parts`."""
        return {"version": copied.version}, [copied.center, *copied.state]

    def from_parts(self, value: dict[str, Any], arrays: list[Array]) -> Copied:
        """See `Strategy.from_parts`."""
        center, *state = arrays
        if center.dtype != np.uint8 or center.ndim != 1:
            raise ValueError(f"expected parameters as bytes, got {center.dtype}")
        return Copied(center, int(value["version"]), state)
