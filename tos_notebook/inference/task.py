"""Predicting inside a Spark task."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..blocks.block import Columns
from ..cluster.gpus import claim_gpus
from ..cluster.storage import fetch_archive
from ..common.arrays import Array

if TYPE_CHECKING:
    from ..runtime.forward import Forward

KEPT_MODELS = 2
_loaded: OrderedDict[str, Forward] = OrderedDict()
"""Models of this process, which Spark reuses for later tasks."""


@dataclass(frozen=True, slots=True)
class Served:
    """A published model, as tasks know it.

    Parameters
    ----------
    name : str
        Of the published file.
    cores : int
        Of one task.
    batch_size : int
    """

    name: str
    cores: int
    batch_size: int

    def __call__(self, columns: Sequence[Array]) -> tuple[Array, ...]:
        """Predict rows, at least one."""
        claim_gpus()
        return self._forward()(columns, self.batch_size)

    def _forward(self) -> Forward:
        if self.name not in _loaded:
            from ..runtime.forward import Forward
            from ..runtime.runner import configure_threads

            configure_threads(self.cores)
            _loaded[self.name] = Forward(fetch_archive(self.name))
        _loaded.move_to_end(self.name)
        while len(_loaded) > KEPT_MODELS:
            _loaded.popitem(last=False)
        return _loaded[self.name]


@dataclass(frozen=True, slots=True)
class Rows:
    """Predictor blocks, and yields what each row came to.

    Parameters
    ----------
    served : Served
    fields : tuple of int
        Which columns of a block are fed, in the order of the inputs.
    """

    served: Served
    fields: tuple[int, ...]

    def __call__(self, blocks: Iterable[Columns]) -> Iterator[Any]:
        """Yield an array for each row; a tuple of them where there are several outputs."""
        for block in blocks:
            found = self.served([block[field] for field in self.fields])
            yield from found[0] if len(found) == 1 else zip(*found, strict=True)
