"""Settings of between-graph replication, which stay as they are for the whole run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...codecs.pair import PLAIN, CodecPair
from ...errors import ConfigError
from ...steering.sync import SyncMode


def check_codec(codec: CodecPair) -> None:
    """Raise ConfigError for a codec that changes what it encodes."""
    if not codec.lossless:
        raise ConfigError(
            f"codec: expected 'fp32' with strategy 'tensorflow', whose tensors TensorFlow itself "
            f"sends; got '{codec}'. Leave it out, or train with strategy='ps'."
        )


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """One version of them.

    Parameters
    ----------
    lockstep : bool
        Whether all workers make each step together; see `TensorFlowCluster`.
    """

    lockstep: bool = False
    continues: ClassVar[bool] = False
    tree_depth: ClassVar[None] = None
    codec: ClassVar[CodecPair] = PLAIN

    @property
    def pushes(self) -> str:
        """What a worker sends, though not to the driver."""
        return "gradients" if self.lockstep else "delta"

    def check(self, sync: SyncMode, sync_interval: int) -> None:
        """See `StrategySettings.check`."""
        if self.lockstep and not sync.barrier:
            raise ConfigError(
                f"sync: expected 'bsp' with strategy 'tensorflow:sync', whose workers make each "
                f"step together; got '{sync}'. Leave it out."
            )
        if not self.lockstep and sync.slack is not None:
            raise ConfigError(
                f"sync: expected 'asp' with strategy 'tensorflow', whose workers share variables "
                f"at each step; got '{sync}'. Leave it out, or choose strategy='tensorflow:sync'."
            )
        if self.lockstep and sync_interval != 1:
            raise ConfigError(
                f"sync_interval: expected 1 with strategy 'tensorflow:sync', whose workers make "
                f"each step together; got {sync_interval}. Leave it out."
            )

    def changed(self, **changes: Any) -> SessionSettings:
        """See `StrategySettings.changed`."""
        if "combiner" in changes:
            raise ConfigError(
                "combiner: expected none with strategy 'tensorflow', whose graph makes the steps. "
                "Train with strategy='ps' to choose one."
            )
        check_codec(changes["codec"])
        return self

    def require_saveable(self) -> None:
        """See `StrategySettings.require_saveable`; variables are arrays."""

    def for_worker(self) -> dict[str, str]:
        """See `StrategySettings.for_worker`."""
        return {}

    def shown(self) -> dict[str, Any]:
        """See `StrategySettings.shown`."""
        return {"codec": str(self.codec)}
