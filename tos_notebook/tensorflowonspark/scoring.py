"""What a `TFModel` does with rows, inside a Spark task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..cluster.files import fetch_archive
from ..runtime.loaded import BOUND
from . import util

if TYPE_CHECKING:
    from ..runtime.named import NamedForward


def yield_batch(
    iterable: Iterable[Sequence[Any]], batch_size: int, num_tensors: int = 1
) -> Iterator[list[list[Any]]]:
    """Yield the columns of so many rows each; the last batch may be smaller.

    Parameters
    ----------
    iterable : iterable of sequence
        Rows; None ends them.
    batch_size : int
    num_tensors : int
        Columns of a row.
    """
    columns: list[list[Any]] = [[] for _ in range(num_tensors)]
    for row in iterable:
        if row is None:
            break
        for column, value in zip(columns, row, strict=False):
            column.append(_plain(value))
        if len(columns[0]) >= batch_size:
            yield columns
            columns = [[] for _ in range(num_tensors)]
    if columns[0]:
        yield columns


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    # A vector of Spark ML.
    return value.toArray() if hasattr(value, "toArray") else value


@lru_cache(BOUND)
def _loaded(name: str, cores: int) -> NamedForward:
    from ..runtime.named import NamedForward
    from ..runtime.runner import configure_threads

    configure_threads(cores)
    return NamedForward(fetch_archive(name))


@dataclass(frozen=True)
class Scorer:
    """Computes the rows of a partition, in their order.

    Parameters
    ----------
    archive : str
        The published model's name. Each Python process loads it once.
    inputs, outputs : tuple of str
        The model's names for the columns of a row, and for those to make.
    batch_size : int
    cores : int
        Of a task.
    gpus : int or None
        Of a task; None for one, where there is any.
    """

    archive: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    batch_size: int
    cores: int
    gpus: int | None

    def __call__(self, rows: Iterable[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
        """Yield a tuple of outputs for each row."""
        util.single_node_env(self.gpus)
        for columns in yield_batch(rows, self.batch_size, len(self.inputs)):
            model = _loaded(self.archive, self.cores)
            yield from model(dict(zip(self.inputs, columns, strict=True)), self.outputs)
