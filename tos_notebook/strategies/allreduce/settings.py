"""Settings that only all-reduce has: what is averaged, how it is encoded, and what it moves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...codecs.pair import PLAIN, CodecPair
from ...combiners.base import Combiner
from ...errors import ConfigError
from ...steering.sync import SyncMode
from .coding import check_codecs
from .outer import aggregate_of, check_outer, to_text


@dataclass(frozen=True, slots=True)
class ReduceSettings:
    """One version of them.

    Parameters
    ----------
    of : {"gradients", "parameters"}
        What workers average.
    codec : CodecPair
        How that and the parameters travel.
    algorithm : str
        The way between the workers, as asked for; ``"star"`` leads through the driver.
    outer : Combiner or None
        How parameters move by the mean change of all workers; None for the mean of parameters.
    continues : bool
        Whether workers make steps without a partition that is lost.
    """

    of: str
    codec: CodecPair = PLAIN
    algorithm: str = "star"
    outer: Combiner | None = None
    continues: bool = False
    lockstep = True
    tree_depth = None

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
                "combiner: expected the one that the strategy 'allreduce' has begun with. Choose "
                "another one by run.swap_strategy(..., combiner=...), for the next epoch."
            )
        return replace(self, **changes).checked()

    def checked(self) -> ReduceSettings:
        """Return them.

        Raises
        ------
        ConfigError
            Workers cannot encode what they exchange with each other, or cannot apply the combiner.
        """
        self._check_outer()
        if self.algorithm != "star":
            check_codecs(self.codec, self.algorithm in ("auto", "direct"))
        return self

    def _check_outer(self) -> None:
        if self.outer is None:
            return
        if self.of == "gradients":
            raise ConfigError(
                "combiner: expected none where workers average gradients, by which the program's "
                f"optimizer makes the step; got {self.outer.name}. Leave it out, or average "
                "parameters, as strategy='allreduce:parameters/10' does."
            )
        if self.algorithm == "star":
            raise ConfigError(
                "combiner: expected none with algorithm='star', which averages in the driver; got "
                f"{self.outer.name}. Choose algorithm='auto', or train with strategy='ps' and "
                "sync='bsp'."
            )
        check_outer(self.outer)
        if aggregate_of(self.outer) is None:
            return
        if self.algorithm not in ("auto", "direct"):
            raise ConfigError(
                f"combiner: expected a rule for the mean change with algorithm={self.algorithm!r}, "
                f"which sends sums; got {self.outer!r}. Choose algorithm='direct'."
            )
        if not self.codec.lossless:
            raise ConfigError(
                f"codec: expected 'fp32' with {self.outer!r}, which compares what workers send; "
                f"got '{self.codec}'. Leave it out, or train with strategy='ps'."
            )

    def require_saveable(self) -> None:
        """See `StrategySettings.require_saveable`; the optimizer keeps arrays only."""

    def for_worker(self) -> dict[str, str]:
        """See `StrategySettings.for_worker`."""
        own = {} if self.outer is None else {"outer": to_text(self.outer)}
        return {"pushes": self.pushes, "codec": str(self.codec)} | own

    def shown(self) -> dict[str, Any]:
        """See `StrategySettings.shown`."""
        own: dict[str, Any] = {} if self.outer is None else {"combiner": self.outer}
        if self.continues:
            own["on_loss"] = "continue"
        return {"codec": str(self.codec), "of": self.of, "algorithm": self.algorithm} | own
