"""Predicting inside a Spark task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..blocks.block import Columns
from ..cluster.files import fetch_archive
from ..cluster.gpus import claim_gpus
from ..common.arrays import Array
from ..runtime.loaded import Loaded

if TYPE_CHECKING:
    from ..runtime.forward import Forward

_models: Loaded[Forward] = Loaded()


@dataclass(frozen=True, slots=True)
class PredictTask:
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
        model = _models.get(self.name)
        if model is None:
            from ..runtime.forward import Forward
            from ..runtime.runner import configure_threads

            configure_threads(self.cores)
            model = Forward(fetch_archive(self.name))
        return _models.keep(self.name, model)


@dataclass(frozen=True, slots=True)
class PredictRows:
    """Predicts blocks, and yields what each row came to.

    Parameters
    ----------
    task : PredictTask
    fields : tuple of int
        Which columns of a block are fed, in the order of the inputs.
    """

    task: PredictTask
    fields: tuple[int, ...]

    def __call__(self, blocks: Iterable[Columns]) -> Iterator[Any]:
        """Yield an array for each row; a tuple of them where there are several outputs."""
        for block in blocks:
            found = self.task([block[field] for field in self.fields])
            yield from found[0] if len(found) == 1 else zip(*found, strict=True)
