"""Settings that only a parameter server has: how pushes are merged and encoded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from ...codecs.pair import PLAIN, CodecPair
from ...combiners.base import Combiner, merges_rows, prepares
from ...combiners.registry import MADE
from ...combiners.stateless import Downpour
from ...coordination.settings import Settings
from ...errors import ConfigError
from ...persist.described import describe
from ...persist.values import encode
from ...steering.sync import SyncMode


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """One version of them.

    Parameters
    ----------
    combiner : Combiner
        By which the server merges.
    codec : CodecPair
        How updates and replies are encoded.
    shards : int
        See `ParameterServer`.
    locking : bool
        See `ParameterServer`.
    """

    combiner: Combiner
    codec: CodecPair = PLAIN
    shards: int = 0
    locking: bool = True
    lockstep = continues = False
    tree_depth = None

    @property
    def pushes(self) -> str:
        """What a worker sends: how its parameters have changed, or the parameters."""
        return self.combiner.pushes

    @property
    def by_row(self) -> bool:
        """Whether tables are exchanged by row; whole where updates are encoded."""
        return self.codec.lossless and merges_rows(self.combiner)

    def check(self, sync: SyncMode, sync_interval: int) -> None:
        """See `StrategySettings.check`."""
        if not self.locking:
            self._check_hogwild(sync)
        if self.shards and (not self.combiner.striped or prepares(self.combiner)):
            raise ConfigError(
                f"Combiner {self.combiner.name} is called with whole parameters, of which each "
                "shard has a part. Choose one that works element by element, such as dynsgd, or "
                "train with strategy='ps'."
            )
        if self.combiner.one_step and sync_interval != 1:
            raise ConfigError(
                f"Combiner {self.combiner.name}: expected sync_interval 1, got "
                f"{sync_interval}. Set it to 1 first, or choose another combiner."
            )
        if self.combiner.compares and self.codec.up.sparse:
            raise ConfigError(
                f"Combiner {self.combiner.name} compares whole updates, but codec "
                f"{self.codec.up} sends few of their values. Choose another codec, such as int8, "
                "or another combiner."
            )

    def _check_hogwild(self, sync: SyncMode) -> None:
        """Refuse what needs a server between the workers and the parameters."""
        if type(self.combiner) is not Downpour:
            raise ConfigError(
                f"combiner: expected downpour with locking=False, since each worker adds its "
                f"updates to the parameters itself; got {self.combiner.name}. Choose downpour, or "
                "train with strategy='ps'."
            )
        if not self.codec.lossless:
            raise ConfigError(
                f"codec: expected 'fp32' with locking=False, since workers send no parameters; got "
                f"'{self.codec}'. Leave it out, or train with strategy='ps'."
            )
        if sync.barrier:
            raise ConfigError(
                f"sync: expected 'asp' or 'ssp:N' with locking=False, where workers do not wait "
                f"for each other's updates; got '{sync}'. Choose one of these, or train with "
                "strategy='ps'."
            )

    def changed(self, **changes: Any) -> ServerSettings:
        """See `StrategySettings.changed`."""
        chosen = changes.get("combiner")
        if self.shards and chosen is not None and describe(chosen, MADE) is None:
            raise ConfigError(
                f"combiner: expected one of tos_notebook.combiners, which shards know by name; got "
                f"{chosen.name}, your own. Choose one of those, or train with strategy='ps'."
            )
        return replace(self, **changes)

    def require_saveable(self) -> None:
        """See `StrategySettings.require_saveable`.

        Raises
        ------
        CheckpointError
            The combiner keeps something else than numbers, text and arrays, and does not say how
            to save it.
        """
        encode(self.combiner.begin(np.zeros(1)), [], f"Combiner {self.combiner.name}")

    def for_worker(self) -> dict[str, str]:
        """See `StrategySettings.for_worker`."""
        by_row = {"by_row": "yes"} if self.by_row else {}
        return {"pushes": self.pushes, "codec": str(self.codec)} | by_row

    def shown(self) -> dict[str, Any]:
        """See `StrategySettings.shown`."""
        own: dict[str, Any] = {"shards": self.shards} if self.shards else {}
        own |= {} if self.locking else {"locking": False}
        return {"codec": str(self.codec), "combiner": self.combiner} | own


def settings_in(settings: Settings) -> ServerSettings:
    """Return the server's part of a run's settings."""
    return cast(ServerSettings, settings.strategy)
