"""Checkpoints of parameters that are not in the driver: each holder of a part writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...coordination.exchange import CopyApart
from ...coordination.snapshots import Snapshot
from ...errors import CheckpointError
from ...persist.parts import SavedPart
from .folder import Folder


def write_apart(snapshot: Snapshot, folder: Folder, number: int, claim: str) -> Sequence[SavedPart]:
    """Let the parameters be written where they are; return nothing if they are in this process.

    Parameters
    ----------
    snapshot : Snapshot
    folder : Folder
    number : int
        The checkpoint's.
    claim : str
        Name of that of this process.

    Raises
    ------
    CheckpointError
        Not all parts are in the folder, as this process sees it.
    WaitTimeout
        It takes too long.
    """
    copied = snapshot.progress.copied
    if not isinstance(copied, CopyApart):
        return ()
    parts = copied.write(folder.place(number, claim))
    for part in parts:
        nbytes = folder.storage.length(part.name)
        if nbytes != part.nbytes:
            raise CheckpointError(
                f"{folder.storage.uri}/{part.name}: expected {part.nbytes} bytes, as a shard has "
                f"written them, got {nbytes}."
            )
    return parts


def fetched(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot whose parameters are in this process.

    Raises
    ------
    TosError
        They are lost.
    """
    copied = snapshot.progress.copied
    if not isinstance(copied, CopyApart):
        return snapshot
    return replace(snapshot, progress=replace(snapshot.progress, copied=copied.fetch()))


def release(snapshot: Snapshot) -> None:
    """Let parameters that are elsewhere be forgotten."""
    copied = snapshot.progress.copied
    if isinstance(copied, CopyApart):
        copied.release()
