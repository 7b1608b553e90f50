"""The files of one run: checkpoints by number, history piece by piece, data and program."""

from __future__ import annotations

import logging
import os
import re
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...cluster.stores import FileStore
from ...common import temporary
from ...common.arrays import Array
from ...errors import CheckpointError, ConfigError
from ...persist import parts
from ...persist import sealed as files
from ...persist.parts import PartPlace
from ...persist.sealed import Sealed

logger = logging.getLogger(__name__)

PROGRAM = "program.zip"
"""As the run was started with it; `program` names others."""

DATA = "data.tos"

BEST = "best.tos"
"""Parameters of the best validation."""

_CHECKPOINT = re.compile(r"checkpoint-(\d{8})\.tos")
_PART = re.compile(r"part-(\d{8})-[\w-]+\.tos")
_OWNER = re.compile(r"owner-(\d{8})\.tos")


class Found(NamedTuple):
    """A checkpoint that is as it was written."""

    number: int
    name: str
    sealed: Sealed


def checkpoint(number: int) -> str:
    """Return the name of a checkpoint's file."""
    return f"checkpoint-{number:08d}.tos"


def program(digest: str) -> str:
    """Return the name of the file of a program that a later strategy trains."""
    return f"program-{digest}.zip"


def part(number: int) -> str:
    """Return how the names of the files begin that hold parts of a checkpoint."""
    return f"part-{number:08d}"


def history(number: int) -> str:
    """Return the name of the file of the events before a checkpoint, and after the last."""
    return f"history-{number:08d}.tos"


def owner(claims: int) -> str:
    """Return the name of the file that says who started the run, or resumed it so often."""
    return f"owner-{claims:08d}.tos"


class Claim(NamedTuple):
    """What a process that resumes a run has on its folder."""

    name: str
    number: int
    """The largest of a checkpoint that others may still write."""


FIRST = Claim(owner(0), 0)
"""What the process has that starts a run."""


def _who() -> bytes:
    return files.encode({"host": socket.gethostname(), "pid": os.getpid(), "when": time.time()})


class Folder:
    """The folder of one run."""

    def __init__(self, storage: FileStore) -> None:
        self.storage = storage

    def numbers(self) -> list[int]:
        """Return the numbers of the checkpoints, ascending, whether they can be read or not."""
        found = map(_CHECKPOINT.fullmatch, self.storage.list())
        return sorted(int(match[1]) for match in found if match)

    def begin(self) -> None:
        """Take the folder for a run that starts.

        Raises
        ------
        ConfigError
            It holds another run, which may have begun at this moment.
        """
        if self.storage.list() or not self.storage.write_new(FIRST.name, _who()):
            raise ConfigError(
                f"{self.storage.uri} holds another run's files: start again, or choose another "
                "directory."
            )

    def claim(self) -> Claim:
        """Let no process write here that has not claimed the folder later.

        The process that a run is resumed from may not have died, and still train. Of two that
        claim it at once, each has a number of its own, and the later one the folder.
        """
        last = _OWNER.fullmatch(self._owner() or "")
        claims = 1 + (int(last[1]) if last else 0)
        while not self.storage.write_new(owner(claims), _who()):
            claims += 1
        # Each of those before may be writing one more at this moment.
        return Claim(owner(claims), max(self.numbers(), default=0) + claims)

    def require(self, claim: str) -> None:
        """Raise CheckpointError if another process has claimed the folder later, by name."""
        owner = self._owner()
        if owner is not None and owner > claim:
            raise CheckpointError(
                f"{self._describe(owner)} resumed the run, and saves it in {self.storage.uri} from "
                "then on. This one trains on, but saves nothing: stop it."
            )

    def _describe(self, owner: str) -> str:
        try:
            who = self.read(owner).summary
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(who["when"])))
        except (CheckpointError, LookupError, TypeError, ValueError, OverflowError, OSError):
            # It has begun to write it at this moment, or it is of another release.
            return "Another process"
        return f"Process {who.get('pid')} on {who.get('host')}, at {when},"

    def _owner(self) -> str | None:
        return max(filter(_OWNER.fullmatch, self.storage.list()), default=None)

    def write(
        self, name: str, summary: dict[str, Any], value: Any = None, arrays: Sequence[Array] = ()
    ) -> int:
        """Write a sealed file; return its size in bytes."""
        with temporary.directory("tos-checkpoint-") as directory:
            local = Path(directory, name)
            files.write(local, summary, value, arrays)
            size = local.stat().st_size
            self.storage.write(name, local)
        return size

    def read(self, name: str) -> Sealed:
        """Return what a sealed file holds.

        Raises
        ------
        CheckpointError
            It is not there, or not as it was written.
        """
        return files.decode(self.storage.read(name), f"{self.storage.uri}/{name}")

    def read_whole(self, name: str) -> Sealed:
        """Return what a checkpoint holds, and the parts that it names; raises what `read` does."""
        found = self.read(name)
        named = parts.parts_of(found.value)
        for each in named:
            if not _PART.fullmatch(each.name):
                raise CheckpointError(f"{name}: expected names of parts, got {each.name!r:.80}.")
        return parts.joined(found, [parts.read_part(self.storage, part) for part in named])

    def place(self, number: int, claim: str) -> PartPlace:
        """Return where the parts of a checkpoint go.

        Parameters
        ----------
        number : int
            The checkpoint's.
        claim : str
            Name of that of this process.

        Raises
        ------
        CheckpointError
            The file system refused.
        """
        proof = parts.digest(self.storage.read(claim))
        return PartPlace(self.storage.uri, part(number), claim, proof)

    def remove(self, number: int) -> None:
        """Delete a checkpoint, and its parts after it.

        Raises
        ------
        CheckpointError
            The file system refused.
        """
        self.storage.delete(checkpoint(number))
        self.remove_parts(lambda own: own == number)

    def remove_parts(self, of: Callable[[int], bool]) -> None:
        """Delete the parts of checkpoints by their numbers; raises what `remove` does."""
        for name in self.storage.list():
            found = _PART.fullmatch(name)
            if found and of(int(found[1])):
                self.storage.delete(name)

    def last(
        self, before: int | None = None, tell: Callable[[str], object] = logger.warning
    ) -> Found:
        """Return the newest checkpoint that is as it was written; others are passed over.

        Parameters
        ----------
        before : int, optional
            A number that it is below.
        tell : callable, optional
            Takes a sentence on each checkpoint that was passed over.

        Raises
        ------
        CheckpointError
            The folder has none.
        """
        problems = []
        numbers = [n for n in self.numbers() if before is None or n < before]
        for number in reversed(numbers):
            name = checkpoint(number)
            try:
                found = Found(number, name, self.read_whole(name))
            except CheckpointError as error:
                problems.append(str(error))
                continue
            for problem in problems:
                tell(f"{problem} So {name} is restored.")
            return found
        raise CheckpointError(
            f"{self.storage.uri} has no checkpoint to continue from"
            + (f": {' '.join(problems)}" if problems else ".")
        )
