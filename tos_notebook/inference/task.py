"""Predicting inside a Spark task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ..cluster.files import fetch_archive
from ..cluster.gpus import claim_gpus
from ..common.arrays import Array
from ..runtime.loaded import BOUND
from .servable import Published, finder

if TYPE_CHECKING:
    from ..runtime.served import Forward


@lru_cache(BOUND)
def _forward(model: Published, cores: int) -> Forward:
    from ..runtime.runner import configure_threads
    from ..runtime.served import Forward

    configure_threads(cores)
    archive = fetch_archive(model.name)
    return Forward(archive, finder(model.rows, archive))


def predict_published(
    model: Published, cores: int, batch_size: int, columns: Sequence[Array]
) -> tuple[Array, ...]:
    """Predict rows, at least one, with a published model."""
    claim_gpus()
    return _forward(model, cores)(columns, batch_size)
