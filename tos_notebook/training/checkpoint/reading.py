"""The newest checkpoint of a run that can be read, and the events before it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from ...errors import CheckpointError, TosError
from ...events import Event
from . import event_log
from .contents import Checkpoint, from_sealed
from .folder import Folder, checkpoint

logger = logging.getLogger(__name__)

Tell = Callable[[str], object]
"""Takes a sentence on a checkpoint that was passed over."""


def last(
    folder: Folder, before: int | None = None, tell: Tell = logger.warning
) -> tuple[int, Checkpoint]:
    """Return the newest checkpoint that can be read, below a number if that is given."""
    found = folder.last(before, tell)
    try:
        return found.number, from_sealed(found.sealed, found.name)
    except CheckpointError as error:
        return one_before(folder, found.number, error, tell)


def one_before(folder: Folder, number: int, error: TosError, tell: Tell) -> tuple[int, Checkpoint]:
    """Return the one before a checkpoint that cannot be used; raise why if there is none."""
    try:
        found = last(folder, number, tell)
    except CheckpointError:
        raise error from None
    tell(
        f"{folder.storage.uri}/{checkpoint(number)} cannot be restored, so "
        f"{checkpoint(found[0])} is: {error}"
    )
    return found


def past(folder: Folder, names: Iterable[str]) -> list[Event]:
    """Return the events of some files; of one that cannot be read, none, and a warning."""
    events: list[Event] = []
    for name in names:
        try:
            events += event_log.events(folder.read(name), name)
        except CheckpointError as error:
            logger.warning("A part of the history is missing: %s", error)
    return events
