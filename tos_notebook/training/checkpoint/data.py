"""Training data beside checkpoints: arrays are stored once, others compared when given again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...blocks.source import DataSource
from ...cluster.jobs import job_error
from ...common.arrays import Array
from ...common.content import Beginning, Content, content_of
from ...coordination.contents import Contents
from ...data.arrays import ArraySource
from ...data.stream import StreamSource
from ...errors import CheckpointError, DataError, TosError
from .contents import Checkpoint, Origin
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
        The file is missing or damaged, or holds other arrays than those that the run began with.
    """
    if not origin.stored:
        raise DataError(
            f"{origin.run_id} was trained on data of {origin.partitions} partitions that are not "
            "stored with its checkpoints. Give them again: tos.resume(uri, data)."
        )
    try:
        arrays = folder.read(DATA).arrays
        digest = content_of(arrays).digest
        if digest != origin.content:
            raise CheckpointError(
                f"{DATA}: expected arrays with digest {origin.content[:8]}, got digest "
                f"{digest[:8]}."
            )
        return ArraySource(arrays, origin.came_in or origin.partitions)
    except CheckpointError as error:
        raise CheckpointError(f"{error} Or give the same arrays: tos.resume(uri, data).") from None


def first_layout(source: DataSource, origin: Origin) -> DataSource:
    """Return data as they came in the layout that the run began with."""
    if origin.came_in is None:
        return source
    return source.dealt(origin.partitions, origin.options.seed)


def check_same(source: DataSource, origin: Origin) -> None:
    """Check that data are what a run was trained on, as far as that shows in the driver.

    Raises
    ------
    DataError
        They are not.
    """
    if isinstance(source, StreamSource) != origin.stream:
        raise _other(origin, f"expected data of the same kind, got {source!r}")
    columns = tuple((c.dtype, tuple(c.shape)) for c in source.columns)
    found = {"partitions": source.partitions, "columns": columns, "rows": source.samples}
    expected = {
        "partitions": origin.came_in or origin.partitions,
        "columns": origin.columns,
        "rows": origin.rows if source.samples is not None else None,
    }
    for name, value in expected.items():
        if value is not None and found[name] != value:
            raise _other(origin, f"expected {name} {value}, got {found[name]}")
    if not origin.stored:
        return
    if not isinstance(source, ArraySource):
        raise _other(origin, f"expected arrays, got {source!r}")
    digest = content_of(source.arrays).digest
    if digest != origin.content:
        raise _other(
            origin,
            f"expected arrays with digest {origin.content[:8]}, got digest {digest[:8]}: values or "
            "order differ",
        )


def check_content(sc: Any, source: DataSource, saved: Checkpoint) -> None:
    """Check that data in the layout of a checkpoint hold the rows that were trained.

    Spark makes the rows for it that workers have loaded before; of a stream, those of the first
    push in the latest epoch of which some are trained. Of an epoch that is trained in part, the
    workers compare the others, when they continue.

    Parameters
    ----------
    sc : SparkContext
    source : DataSource
        Laid out as at the checkpoint.
    saved : Checkpoint

    Raises
    ------
    DataError
        The rows are others, or come in another order.
    TosError
        The rows cannot be read.
    """
    contents = Contents.from_json(saved.progress.ledger["contents"])
    if isinstance(source, StreamSource):
        _check_streams(sc, source, contents.beginnings(), saved.origin)
    else:
        _check_rows(sc, source, contents.held, saved.origin)


def check_earlier(sc: Any, first: DataSource, saved: Checkpoint) -> None:
    """Check the same of the layout before, of a checkpoint that does not know all rows of its own.

    Parameters
    ----------
    sc : SparkContext
    first : DataSource
        In the first layout.
    saved : Checkpoint

    Raises
    ------
    DataError, TosError
        As `check_content` does.
    """
    earlier = Contents.from_json(saved.progress.ledger["contents"]).earlier
    if not earlier:
        return
    layout = saved.progress.reached.earlier
    source = first if layout is None else first.repartition(*layout)
    try:
        _check_rows(sc, source, earlier, saved.origin)
    finally:
        if source is not first:
            source.close()


def _check_rows(sc: Any, source: DataSource, held: Mapping[int, Content], origin: Origin) -> None:
    if not held:
        return
    partitions = sorted(held)
    with _compared():
        found = dict(zip(partitions, source.contents(sc, partitions), strict=True))
    others = [p for p, content in found.items() if content != held[p]]
    if others:
        first = others[0]
        more = f", and {len(others) - 1} more partitions differ" if len(others) > 1 else ""
        raise _other(
            origin,
            f"partition {first}: expected {held[first]}, got {found[first]}{more}",
            source.remedy,
        )


def _check_streams(
    sc: Any, source: StreamSource, begun: Sequence[Beginning], origin: Origin
) -> None:
    if not begun:
        return
    with _compared():
        digests = source.digests(sc, begun, origin.options.seed, origin.session.batch_size)
    for place, digest in zip(begun, digests, strict=True):
        if digest != place.digest:
            raise _other(
                origin,
                f"partition {place.partition}, epoch {place.epoch + 1}: expected the first "
                f"{place.steps} batches with digest {place.digest[:8]}, got digest {digest[:8]}",
                source.remedy,
            )


@contextmanager
def _compared() -> Iterator[None]:
    """Raise whatever a job raises inside as one of our errors: Spark may have gone, too."""
    try:
        yield
    except Exception as error:
        raise error if isinstance(error, TosError) else job_error(error) from error


def _other(origin: Origin, difference: str, remedy: str = "") -> DataError:
    advice = f" {remedy}" if remedy else ""
    return DataError(
        f"{origin.run_id} continues only with the data that it began with: {difference}. Give the "
        f"same data, in the same partitions and order; the run is as it was.{advice}"
    )
