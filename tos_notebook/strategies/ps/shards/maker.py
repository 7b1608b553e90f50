"""Makes a worker's exchange with shards."""

from __future__ import annotations

from dataclasses import dataclass

from ....layout import Layout
from ....transport.base import Connection
from ....worker.exchange import WorkerContext
from .exchange import ShardedExchange
from .rows import RowShardedExchange
from .slices import slices, stripe_lengths


@dataclass(frozen=True, slots=True)
class ShardedExchangeMaker:
    """Makes the worker's side of a run; see `worker.exchange.ExchangeMaker`."""

    shards: int
    stripe_bytes: int

    def __call__(
        self, connection: Connection, layout: Layout, context: WorkerContext
    ) -> ShardedExchange:
        """Return it for one task."""
        parts = slices(layout, self.shards, stripe_lengths(layout, self.stripe_bytes))
        kind = RowShardedExchange if layout.tables else ShardedExchange
        return kind(connection, layout, parts, context)
