"""Settings that only a parameter server has: how pushes are merged and encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from ...codecs.pair import PLAIN, CodecPair
from ...combiners.base import Combiner
from ...coordination.settings import Settings
from ...errors import ConfigError
from ...steering.sync import SyncMode


def default_combiner(sync: SyncMode) -> str:
    """Return the name of the combiner that goes with a sync mode.

    Workers that wait for each other are averaged, as in local SGD. For others it is DynSGD, which
    stays accurate however many they are: it gives a push the less weight the staler it is.
    """
    return "fedavg" if sync.barrier else "dynsgd"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """One version of them.

    Parameters
    ----------
    combiner : Combiner
        By which the server merges.
    codec : CodecPair
        How updates and replies travel.
    """

    combiner: Combiner
    codec: CodecPair = PLAIN

    def check(self, sync_interval: int) -> None:
        """See `StrategySettings.check`."""
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

    def for_worker(self) -> dict[str, str]:
        """See `StrategySettings.for_worker`."""
        return {"pushes": self.combiner.pushes, "codec": str(self.codec)}


def settings_in(settings: Settings) -> ServerSettings:
    """Return the server's part of a run's settings."""
    return cast(ServerSettings, settings.strategy)
