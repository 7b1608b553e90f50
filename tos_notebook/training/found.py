"""What a run's folder holds of it: the newest checkpoint that goes back into a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..cluster.files import digest_of
from ..cluster.opening import open_store
from ..combiners import Combiner
from ..common import temporary
from ..coordination.coordinator import Coordinator
from ..coordination.settings import Settings
from ..errors import CheckpointError, ConfigError, InvalidTransition, TosError
from ..events import Event
from ..program.archived import SavedProgram
from ..program.export.base import Program
from ..strategies.base import TrainerSetup
from . import factory
from .checkpoint.contents import Checkpoint
from .checkpoint.folder import BEST, PROGRAM, Folder
from .checkpoint.folder import program as program_name
from .checkpoint.reading import Tell, last, one_before, past
from .summaries import active_run, summaries

logger = logging.getLogger(__name__)


class Found(NamedTuple):
    """What a run's folder holds of it."""

    folder: Folder
    chosen: Restorable
    past: Sequence[Event]
    notes: tuple[str, ...]
    kept_best: bool


def find(sc: Any, uri: str, combiner: Combiner | None, captured: Program | None) -> Found:
    """Read what a run continues from.

    Raises
    ------
    CheckpointError, ConfigError, InvalidTransition
        As in `resume`.
    """
    storage = open_store(sc, uri)
    folder = Folder(storage)
    if not folder.numbers() and (inside := summaries(map(storage.inside, storage.folders()))):
        raise ConfigError(
            f"{uri} holds runs: expected the folder of one, such as {inside[-1].uri}."
        )
    notes: dict[str, None] = {}
    _, newest = last(folder, tell=notes.setdefault)
    _refuse_if_active(newest.origin.run_id)
    own = _own(newest, combiner)
    chosen = _restorable(folder, partial(_program, folder, own=captured), own, notes.setdefault)
    for note in notes:
        logger.warning("%s", note)
    kept_best = BEST in folder.storage.list()
    return Found(folder, chosen, past(folder, chosen.saved.history), tuple(notes), kept_best)


class Restorable(NamedTuple):
    """A checkpoint whose state goes back into a run."""

    number: int
    saved: Checkpoint
    settings: Settings
    program: SavedProgram


def _restorable(
    folder: Folder,
    program: Callable[[Checkpoint], SavedProgram],
    combiner: Combiner | None,
    tell: Tell = logger.warning,
) -> Restorable:
    """Return the newest checkpoint that can be restored.

    Parameters
    ----------
    folder : Folder
    program : callable
        Returns the program of a checkpoint.
    combiner : Combiner or None
        The user's own, for checkpoints that need one.
    tell : callable
        Takes a sentence on each that is passed over.

    Raises
    ------
    TosError
        None can; why the newest one cannot.
    """
    number, saved = last(folder, tell=tell)
    while True:
        try:
            settings = saved.settings_with(combiner if saved.own_combiner is not None else None)
            found = program(saved)
            _try_out(found, saved, settings)
            return Restorable(number, saved, settings, found)
        except TosError as error:
            number, saved = one_before(folder, number, error, tell)


def _try_out(program: SavedProgram, saved: Checkpoint, settings: Settings) -> None:
    """Restore all of a checkpoint's state into a run that is not trained."""
    origin = saved.origin
    setup = TrainerSetup(
        program.layout,
        program.read(),
        settings,
        updater=lambda: factory.load_updater(program.export(origin.columns)),
        archive=lambda: program.export(origin.columns),
    )
    trial = Coordinator(
        origin.run_id,
        saved.strategy.trainer(setup),
        settings,
        publish=lambda event: None,
        locate=lambda task: ("", ""),
        on_failure=lambda: None,
    )
    trial.restore(saved.progress)


def _refuse_if_active(run_id: str) -> None:
    active = active_run(run_id)
    if active is not None:
        raise InvalidTransition(
            active.state, "resume it from a checkpoint", f"{run_id} trains in this process."
        )


def _own(saved: Checkpoint, given: Combiner | None) -> Combiner | None:
    """Return the run's own combiner, where a checkpoint cannot name it."""
    if saved.own_combiner is None:
        return None
    if given is None:
        # It says which one to give: no older checkpoint stands in for that.
        saved.settings_with()
    if given is not None and given.name != saved.own_combiner:
        raise ConfigError(
            f"combiner: expected {saved.own_combiner}, a combiner of your own whose state the "
            f"checkpoint holds; got {given!r}. Give the run its own, then call "
            "run.set(combiner=...)."
        )
    return given


def _program(folder: Folder, saved: Checkpoint, own: Program | None) -> SavedProgram:
    own_name = program_name(saved.origin.program)
    name = own_name if own_name in folder.storage.list() else PROGRAM
    content = folder.storage.read(name)
    if digest_of(content) != saved.origin.program:
        raise CheckpointError(
            f"{folder.storage.uri}/{name} is damaged: expected the program that the run was "
            "started with. Put a copy of it there."
        )
    with temporary.directory("tos-resume-") as directory:
        archive = Path(directory, PROGRAM)
        archive.write_bytes(content)
        return SavedProgram(archive, saved.origin.columns, own, saved.origin.rate)
