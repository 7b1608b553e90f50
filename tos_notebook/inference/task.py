"""Predicting inside a Spark task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ..cluster.files import fetch_archive
from ..cluster.gpus import claim_gpus
from ..common.arrays import Array
from ..runtime.loaded import BOUND

if TYPE_CHECKING:
    from ..runtime.served import Forward


@lru_cache(BOUND)
def _forward(name: str, cores: int) -> Forward:
    from ..runtime.runner import configure_threads
    from ..runtime.served import Forward

    configure_threads(cores)
    return Forward(fetch_archive(name))


def predict_published(
    name: str, cores: int, batch_size: int, columns: Sequence[Array]
) -> tuple[Array, ...]:
    """Predict rows, at least one, with a published model."""
    claim_gpus()
    return _forward(name, cores)(columns, batch_size)
