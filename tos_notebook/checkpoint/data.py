"""Training data beside checkpoints: arrays are stored once, others compared when given again."""

from __future__ import annotations

from collections.abc import Sequence

from ..data.arrays import ArraySource
from ..data.source import DataSource
from ..errors import CheckpointError, DataError
from ..params import Array
from .contents import Origin
from .folder import DATA, Folder


def write_data(folder: Folder, arrays: Sequence[Array]) -> None:
    """Store the arrays that a run is trained on."""
    folder.write(DATA, {"rows": len(arrays[0])}, None, arrays)


def read_data(folder: Folder, origin: Origin) -> ArraySource:
    """Return the data that `write_data` has stored, as they came.

    Raises
    ------
    DataError
        They are not in the folder: they were no arrays.
    CheckpointError
        The file is missing or damaged.
    """
    if not origin.stored:
        raise DataError(
            f"{origin.run_id} was trained on data of {origin.partitions} partitions that are not "
            "stored with its checkpoints. Give them again: tos.resume(uri, data)."
        )
    try:
        return ArraySource(folder.read(DATA).arrays, origin.came_in or origin.partitions)
    except CheckpointError as error:
        raise CheckpointError(f"{error} Or give the same arrays: tos.resume(uri, data).") from None


def first_layout(source: DataSource, origin: Origin) -> DataSource:
    """Return data as they came in the layout that the run began with."""
    if origin.came_in is None:
        return source
    return source.dealt(origin.partitions, origin.seed)


def check_same(source: DataSource, origin: Origin) -> None:
    """Check that data are what a run was trained on, as far as that shows without reading them.

    Raises
    ------
    DataError
        They are not.
    """
    columns = tuple((c.dtype, tuple(c.shape)) for c in source.columns)
    found = {"partitions": source.partitions, "columns": columns, "rows": source.samples}
    expected = {
        "partitions": origin.came_in or origin.partitions,
        "columns": origin.columns,
        "rows": origin.rows if source.samples is not None else None,
    }
    for name, value in expected.items():
        if value is not None and found[name] != value:
            raise DataError(
                f"{origin.run_id} goes on with the data that it has begun with: expected {name} "
                f"{value}, got {found[name]}. Give the same data, in the same partitions."
            )
