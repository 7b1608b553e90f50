"""What may change while a run trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..chaos.rules import Rule
from ..codecs.pair import PLAIN, CodecPair
from ..combiners.base import Combiner
from ..errors import ConfigError
from ..steering.sync import ASP, SyncMode


def default_combiner(sync: SyncMode) -> str:
    """Return the name of the combiner that goes with a sync mode.

    Workers that wait for each other are averaged, as in local SGD. For others it is DynSGD, which
    stays accurate however many they are: it gives a push the less weight the staler it is.
    """
    return "fedavg" if sync.barrier else "dynsgd"


@dataclass(frozen=True, slots=True)
class Settings:
    """One version of the settings; a change makes another.

    Parameters
    ----------
    combiner : Combiner
        By which the server merges.
    sync_interval : int
        Batches between two exchanges.
    sync : SyncMode
    learning_rate : float or None
        None for the program's own.
    codec : CodecPair
        How updates and replies travel.
    chaos : tuple of Rule
        What is to go wrong; who trains hears only of its own next milestone.

    Raises
    ------
    ConfigError
        They do not go together.
    """

    combiner: Combiner
    sync_interval: int
    sync: SyncMode = ASP
    learning_rate: float | None = None
    codec: CodecPair = PLAIN
    chaos: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        if self.combiner.one_step and self.sync_interval != 1:
            raise ConfigError(
                f"Combiner {self.combiner.name}: expected sync_interval 1, got "
                f"{self.sync_interval}. Set it to 1 first, or choose another combiner."
            )
        if self.combiner.compares and self.codec.up.sparse:
            raise ConfigError(
                f"Combiner {self.combiner.name} compares whole updates, but codec "
                f"{self.codec.up} sends few of their values. Choose another codec, such as int8, "
                "or another combiner."
            )

    def for_worker(self) -> dict[str, Any]:
        """Return what a worker must know, as plain JSON values."""
        return {
            "sync_interval": self.sync_interval,
            "learning_rate": self.learning_rate,
            "pushes": self.combiner.pushes,
            "codec": str(self.codec),
        }
