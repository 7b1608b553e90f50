"""Settings that only all-reduce has: what is averaged, and how it is encoded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...codecs.pair import PLAIN, CodecPair
from ...errors import ConfigError
from ...steering.sync import SyncMode


@dataclass(frozen=True, slots=True)
class ReduceSettings:
    """One version of them.

    Parameters
    ----------
    of : {"gradients", "parameters"}
        What workers average.
    codec : CodecPair
        How that and the parameters travel.
    star : bool
        Whether they travel through the driver.
    """

    of: str
    codec: CodecPair = PLAIN
    star: bool = True
    lockstep = True

    @property
    def pushes(self) -> str:
        """What a worker sends; see `ParameterExchange`."""
        return "gradients" if self.of == "gradients" else "weights"

    def check(self, sync: SyncMode, sync_interval: int) -> None:
        """See `StrategySettings.check`."""
        if not sync.barrier:
            raise ConfigError(
                f"sync: expected 'bsp' with strategy 'allreduce', whose workers make each step "
                f"together; got '{sync}'. Leave it out, or train with strategy='ps'."
            )

    def changed(self, **changes: Any) -> ReduceSettings:
        """See `StrategySettings.changed`."""
        if "combiner" in changes:
            raise ConfigError(
                "combiner: expected none with strategy 'allreduce', which averages what workers "
                "bring. Train with strategy='ps' to choose one."
            )
        return replace(self, **changes).checked()

    def checked(self) -> ReduceSettings:
        """Return them.

        Raises
        ------
        ConfigError
            Workers cannot encode what they exchange with each other.
        """
        if not (self.star or self.codec.lossless):
            raise ConfigError(
                f"codec: expected 'fp32' where workers exchange with each other, got "
                f"'{self.codec}'. Leave it out, or train with strategy='allreduce:star'."
            )
        return self

    def require_saveable(self) -> None:
        """See `StrategySettings.require_saveable`; the optimizer keeps arrays only."""

    def for_worker(self) -> dict[str, str]:
        """See `StrategySettings.for_worker`."""
        return {"pushes": self.pushes, "codec": str(self.codec)}

    def shown(self) -> dict[str, Any]:
        """See `StrategySettings.shown`."""
        return {"codec": str(self.codec), "of": self.of}
