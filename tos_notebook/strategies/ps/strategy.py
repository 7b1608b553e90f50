"""The parameter server in the driver, as a strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...codecs.pair import as_codecs
from ...combiners.registry import MADE
from ...combiners.stateless import Downpour
from ...common.arrays import Array, Buffer
from ...coordination.settings import Settings
from ...errors import CheckpointError
from ...layout import Layout
from ...persist.described import describe, rebuild
from ...worker.exchange import ExchangeMaker
from .center import Center
from .exchange import exchange
from .merging import NonFinite
from .push import Copied
from .settings import ServerSettings, settings_in
from .stripes import STRIPE_BYTES
from .trainer import ServerTrainer


@dataclass(frozen=True, slots=True)
class ParameterServer:
    """Workers push to the driver and pull from it, each when it has trained its batches.

    Parameters
    ----------
    non_finite : {"raise", "skip"}
        What an update with NaN or infinity does: end the run, or be left out.
    stripe_bytes : int
        See `Center`; a resumed run keeps its own, by which its state is cut.
    """

    non_finite: NonFinite = "raise"
    stripe_bytes: int = STRIPE_BYTES
    name = "ps"

    @property
    def exchange(self) -> ExchangeMaker:
        """See `Strategy.exchange`."""
        return exchange

    def trainer(self, layout: Layout, initial: Buffer, settings: Settings) -> ServerTrainer:
        """See `Strategy.trainer`."""
        center = Center(layout, initial, settings_in(settings).combiner, self.stripe_bytes)
        return ServerTrainer(center, self.non_finite)

    def exact_settings(self) -> ServerSettings:
        """See `Strategy.exact_settings`."""
        return ServerSettings(Downpour())

    def settings_to_json(self, settings: ServerSettings) -> dict[str, Any]:
        """See `Strategy.settings_to_json`; the combiner is None for a user's own."""
        combiner = settings.combiner
        return {
            "combiner": describe(combiner, MADE),
            "combiner_name": combiner.name,
            "codec": str(settings.codec),
        }

    def settings_from_json(self, value: dict[str, Any], combiner: Any = None) -> ServerSettings:
        """See `Strategy.settings_from_json`."""
        if combiner is None and value["combiner"] is None:
            name = value["combiner_name"]
            raise CheckpointError(
                f"The run merges by a combiner of your own, {name}: give it, such as "
                f"combiner={name}(...)."
            )
        if combiner is None:
            combiner = rebuild(value["combiner"], MADE)
        return ServerSettings(combiner, as_codecs(value["codec"]))

    def to_parts(self, copied: Copied) -> tuple[dict[str, Any], list[Array]]:
        """See `Strategy.to_parts`."""
        value = {"version": copied.version, "state": copied.state}
        return value, [copied.center, *copied.arrays]

    def from_parts(self, value: dict[str, Any], arrays: list[Array]) -> Copied:
        """See `Strategy.from_parts`."""
        center, *rest = arrays
        if center.dtype != np.uint8 or center.ndim != 1:
            raise ValueError(f"expected parameters as bytes, got {center.dtype}")
        return Copied(center, value["version"], value["state"], rest)
