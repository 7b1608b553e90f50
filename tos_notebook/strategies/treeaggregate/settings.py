"""Settings of MLlib's gradient descent, which stay as they are for the whole run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from ...codecs.pair import PLAIN, CodecPair
from ...errors import ConfigError
from ...steering.sync import SyncMode


def check_codec(codec: CodecPair) -> None:
    """Raise ConfigError for a codec that changes what it encodes."""
    if not codec.lossless:
        raise ConfigError(
            f"codec: expected 'fp32' with strategy 'treeaggregate', which adds up gradients as "
            f"they are; got '{codec}'. Leave it out, or train with strategy='allreduce:star'."
        )


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """One version of them: what a user reads of the strategy; see `TreeAggregate`."""

    step_size: float
    updater: str
    reg_param: float
    fraction: float
    tree_depth: int | None = None
    lockstep: ClassVar[bool] = True
    continues: ClassVar[bool] = False
    codec: ClassVar[CodecPair] = PLAIN
    pushes: ClassVar[str] = "gradients"

    def check(self, sync: SyncMode, sync_interval: int) -> None:
        """See `StrategySettings.check`."""
        if not sync.barrier:
            raise ConfigError(
                f"sync: expected 'bsp' with strategy 'treeaggregate', whose workers make each step "
                f"together; got '{sync}'. Leave it out, or train with strategy='ps'."
            )
        if sync_interval != 1:
            raise ConfigError(
                f"sync_interval: expected 1 with strategy 'treeaggregate', whose workers exchange "
                f"in each iteration; got {sync_interval}. Leave it out, or train with "
                "strategy='allreduce'."
            )

    def changed(self, **changes: Any) -> TreeSettings:
        """See `StrategySettings.changed`."""
        if "combiner" in changes:
            raise ConfigError(
                "combiner: expected none with strategy 'treeaggregate', whose updater makes each "
                "step. Train with strategy='ps' to choose one."
            )
        check_codec(changes["codec"])
        return self

    def require_saveable(self) -> None:
        """See `StrategySettings.require_saveable`; there is no state."""

    def for_worker(self) -> dict[str, str]:
        """See `StrategySettings.for_worker`."""
        return {"pushes": self.pushes, "codec": str(self.codec)}

    def shown(self) -> dict[str, Any]:
        """See `StrategySettings.shown`."""
        own = {name: value for name, value in asdict(self).items() if value is not None}
        return {"codec": str(self.codec), **own}
