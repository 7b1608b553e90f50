"""What a folder of checkpoints says of its run."""

from __future__ import annotations

import logging
import math
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import NoneType
from typing import Any

from ..cluster.stores import FileStore
from ..errors import CheckpointError
from ..persist.sealed import HEAD, read_summary
from ..readable import all_readable, readable
from ..steering.machine import ACTIVE
from . import factory
from .checkpoint.folder import Folder, checkpoint
from .run import Run

logger = logging.getLogger(__name__)

_FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("run", "state"), (str,)),
    "name": (str, NoneType),
    **dict.fromkeys(("epoch", "epochs", "milestones", "samples"), (int,)),
    **dict.fromkeys(("loss", "when", "created"), (float, int)),
    "validation": (dict,),
}
"""What a summary says of a run."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The fields of a `SavedRun`, which says what they are."""

    run: str
    name: str | None
    state: str
    epoch: int
    epochs: int
    milestones: int
    samples: int
    loss: float
    when: datetime | None
    size: int
    uri: str
    _folder: Folder = field(repr=False, compare=False)
    _created: float = field(repr=False, compare=False)
    _validated: Mapping[str, float] = field(repr=False, compare=False)
    """The latest evaluation of the validation data, by name."""


def summaries(storages: Iterable[FileStore]) -> list[RunSummary]:
    """Return what folders say of their runs, oldest first; skip those without a checkpoint."""
    found = [run for run in map(_summary_of, storages) if run is not None]
    return sorted(found, key=lambda run: (run._created, run.run))


def _summary_of(storage: FileStore) -> RunSummary | None:
    """Return what a folder says of its run; None if it holds no checkpoint."""
    folder = Folder(storage)
    try:
        numbers = folder.numbers()
        if not numbers:
            return None
    except CheckpointError as error:
        numbers = []
        logger.warning("%s: %s", storage.uri, error)
    for number in reversed(numbers):
        try:
            return _described(storage, folder, checkpoint(number))
        except CheckpointError as error:
            logger.warning("%s: %s", storage.uri, error)
    name = readable(storage.uri.rstrip("/").rpartition("/")[2])
    nothing = (0, 0, 0, 0, math.nan, None, 0)
    return RunSummary(name, None, "unreadable", *nothing, storage.uri, folder, -math.inf, {})


def _described(storage: FileStore, folder: Folder, name: str) -> RunSummary:
    """Return the run of which a checkpoint's summary tells; raise CheckpointError if it is none."""
    summary = _summary(storage, name)
    for field_name, kinds in _FIELDS.items():
        value = summary.get(field_name)
        if field_name not in summary or type(value) not in kinds:
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise CheckpointError(
                f"{name} is sealed, but not as this release writes it: expected {field_name} of "
                f"type {expected}, got {reprlib.repr(value)}."
            )
    try:
        when = datetime.fromtimestamp(summary["when"]).astimezone()
    except (ValueError, OverflowError, OSError) as error:
        raise CheckpointError(f"{name} is sealed, but its time is none: {error}.") from None
    told = {n: summary[n] for n in _FIELDS} | {"when": when}
    if active_run(told["run"]) is not None:
        told["state"] = "running"
    elif told["state"] in ACTIVE:
        told["state"] = "unfinished"
    values = told.pop("validation").items()
    told["_validated"] = {n: v for n, v in values if isinstance(v, int | float)}
    created = told.pop("created")
    size = storage.size()
    return RunSummary(**told, size=size, uri=storage.uri, _folder=folder, _created=created)


def _summary(storage: FileStore, name: str) -> dict[str, Any]:
    """Return a checkpoint's summary; raise CheckpointError if it was cut off or damaged."""
    summary = read_summary(storage.head(name, HEAD), name)
    if isinstance(summary, int):
        summary = read_summary(storage.head(name, summary), name)
    if isinstance(summary, int):
        raise CheckpointError(f"{name} was cut off: expected {summary} bytes and more.")
    readable_summary: dict[str, Any] = all_readable(summary)
    return readable_summary


def active_run(run_id: str) -> Run | None:
    """Return the run of this process that trains under an id; None if there is none."""
    found = (run for run in factory.runs() if run.run_id == run_id and run.active)
    return next(found, None)
