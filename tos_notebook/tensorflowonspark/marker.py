"""What stands in a node's queue beside rows."""

from __future__ import annotations

from ..nodes.hub import EndPartition


class Marker:
    """Stands in a queue and is no row."""


__all__ = ["EndPartition", "Marker"]
