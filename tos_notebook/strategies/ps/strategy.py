"""The parameter server in the driver, as a strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from ...codecs.pair import CodecPair, as_codecs
from ...combiners.averaging import FedAvg
from ...combiners.base import Combiner
from ...combiners.registry import MADE
from ...combiners.stateless import Downpour, DynSGD
from ...common.arrays import Array
from ...common.checks import at_least_one, not_negative, with_known_parameters
from ...common.served import ServedTable
from ...errors import CheckpointError, ConfigError
from ...persist.described import describe, rebuild
from ...steering.machine import Command
from ...steering.sync import ASP, SyncMode
from ...worker.exchange import ExchangeMaker
from ..base import TrainerSetup
from . import residual
from .center import Center
from .hogwild.exchange import exchange as hogwild_exchange
from .hogwild.trainer import HogwildTrainer
from .push import Copied
from .rows.center import RowCenter
from .rows.exchange import exchange
from .served.saved import SavedRows
from .settings import ServerSettings, settings_in
from .shards.copies import ShardedCopy, joined
from .shards.maker import ShardedExchangeMaker
from .shards.trainer import ShardedTrainer
from .stripes import STRIPE_BYTES
from .trainer import ServerTrainer


@with_known_parameters
@dataclass(frozen=True, slots=True)
class ParameterServer:
    """Workers push to the driver and pull from it, each when it has trained its batches.

    Parameters
    ----------
    stripe_bytes : int
        See `Center`; a resumed run keeps its own, by which its state is cut.
    shards : int
        Spark tasks that have the parameters instead of the driver, each a part; 0 for none. The
        driver counts, steers and watches. A small model may have fewer.
    locking : bool
        False lets workers on the driver's host add their updates to the parameters themselves, in
        memory that all share, without locks: Hogwild (Recht et al. 2011, NIPS).

    Raises
    ------
    ConfigError
        One is out of range, or they do not go together.
    """

    stripe_bytes: int = STRIPE_BYTES
    shards: int = 0
    locking: bool = True
    name = "ps"
    summary = "Workers push updates to the driver, which merges each, and pull what has come of it."
    commands = frozenset(Command)
    sampling = None
    default_sync = ASP
    sync_interval = 10
    needs: ClassVar[frozenset[str]] = frozenset()
    when = "Workers of different speed, or long sync intervals: no worker waits for another."
    variants = ("shards=2", "shards=4", "locking=false")
    """Some of what `parse` takes."""

    def __post_init__(self) -> None:
        at_least_one("stripe_bytes", self.stripe_bytes)
        not_negative("shards", self.shards)
        if not isinstance(self.locking, bool):
            raise ConfigError(f"locking: expected True or False, got {self.locking!r}.")
        if self.shards and not self.locking:
            raise ConfigError(
                f"locking: expected True with shards={self.shards}, which merge what workers send; "
                "got False. Leave one of them out."
            )

    @classmethod
    def parse(cls, text: str) -> ParameterServer:
        """Return one for what follows a colon after its name, such as ``"shards=4"``.

        The other is ``"locking=false"``.

        Raises
        ------
        ConfigError
            It is something else.
        """
        if text == "locking=false":
            return cls(locking=False)
        name, _, number = text.partition("=")
        if name != "shards" or not number.isdecimal() or not int(number):
            raise ConfigError(
                f"strategy: expected 'ps', 'ps:locking=false' or 'ps:shards=N' with N from 1, got "
                f"'ps:{text}'."
            )
        return cls(shards=int(number))

    @property
    def tasks(self) -> int:
        """See `Strategy.tasks`."""
        return self.shards

    @property
    def exchange(self) -> ExchangeMaker:
        """See `Strategy.exchange`."""
        if not self.locking:
            return hogwild_exchange
        return ShardedExchangeMaker(self.shards, self.stripe_bytes) if self.shards else exchange

    def trainer(self, setup: TrainerSetup) -> ServerTrainer | ShardedTrainer | HogwildTrainer:
        """See `Strategy.trainer`."""
        if not self.locking:
            return HogwildTrainer(setup)
        if self.shards:
            return ShardedTrainer(setup, self.shards, self.stripe_bytes)
        combiner = settings_in(setup.settings).combiner
        kind = RowCenter if setup.layout.tables else Center
        center = kind(setup.layout, setup.initial, combiner, self.stripe_bytes)
        return ServerTrainer(center, setup.non_finite)

    def sweep(self, folder: Path, run_id: str) -> None:
        """See `Strategy.sweep`."""
        residual.sweep(folder, run_id)

    def default_combiner(self, sync: SyncMode) -> Combiner:
        """See `Strategy.default_combiner`.

        Workers that wait for each other are averaged, as in local SGD. For others it is DynSGD,
        which stays accurate however many they are: it gives a push the less weight the staler it
        is. Workers that add by themselves add all.
        """
        if not self.locking:
            return Downpour()
        return FedAvg() if sync.barrier else DynSGD()

    def settings(self, combiner: Combiner | None, codec: CodecPair) -> ServerSettings:
        """See `Strategy.settings`."""
        # `default_combiner` has filled it in.
        return ServerSettings(cast(Combiner, combiner), codec, self.shards, self.locking)

    def exact_settings(self) -> ServerSettings:
        """See `Strategy.exact_settings`."""
        return ServerSettings(Downpour(), shards=self.shards, locking=self.locking)

    def settings_to_json(self, settings: ServerSettings) -> dict[str, Any]:
        """See `Strategy.settings_to_json`; the combiner is None for a user's own."""
        combiner = settings.combiner
        return {
            "combiner": describe(combiner, MADE),
            "combiner_name": combiner.name,
            "codec": str(settings.codec),
        }

    def settings_from_json(
        self, value: Mapping[str, Any], combiner: Combiner | None = None
    ) -> ServerSettings:
        """See `Strategy.settings_from_json`."""
        name = self.own_combiner(value)
        if combiner is None and name is not None:
            raise CheckpointError(
                f"The run merges by your own combiner, {name}: pass it, such as "
                f"combiner={name}(...)."
            )
        if combiner is None:
            combiner = rebuild(value["combiner"], MADE)
        return ServerSettings(combiner, as_codecs(value["codec"]), self.shards, self.locking)

    def own_combiner(self, value: Mapping[str, Any]) -> str | None:
        """See `Strategy.own_combiner`."""
        return value["combiner_name"] if value["combiner"] is None else None

    def to_parts(self, copied: Copied | ShardedCopy) -> tuple[dict[str, Any], list[Array]]:
        """See `Strategy.to_parts`."""
        if isinstance(copied, ShardedCopy):
            return copied.described(), []
        value = {"version": copied.version, "state": copied.state}
        if copied.rows is None or not copied.rows.tables:
            return value, [copied.center, *copied.arrays]
        tables = [table.to_json() for table in copied.rows.tables]
        value |= {"tables": tables, "rows": copied.rows.numbers}
        return value, [copied.center, *copied.rows.arrays, *copied.arrays]

    def from_parts(self, value: dict[str, Any], arrays: list[Array]) -> Copied:
        """See `Strategy.from_parts`."""
        if "parts" in value:
            return joined(value, arrays)
        center, *rest = arrays
        if center.dtype != np.uint8 or center.ndim != 1:
            raise ValueError(f"expected parameters as bytes, got {center.dtype}")
        numbers = value.get("rows", [])
        tables = tuple(map(ServedTable.from_json, value.get("tables", [])))
        rows = SavedRows.of_arrays(tables, numbers, rest[: 2 * len(numbers)])
        rest = rest[2 * len(numbers) :]
        if numbers:
            # Else views would keep the whole file in memory.
            center, rest = center.copy(), [array.copy() for array in rest]
        return Copied(center, value["version"], value["state"], rest, rows)
