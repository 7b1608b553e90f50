"""The parameters of a run: in the driver before and after it, else in shards."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress

from ....combiners.base import Combiner
from ....combiners.registry import MADE
from ....common.arrays import Array, Buffer
from ....common.served_files import RowsFile
from ....errors import CheckpointError, ClusterUnreachable, TosError
from ....layout import Layout
from ....persist.described import describe
from ...base import Beside
from ..push import Copied
from ..served.orders import RowsOfShards
from ..served.rule import require_by_row
from ..served.saved import SavedRows
from . import parcel
from .commits import Commits
from .copies import ANSWER, Copies, ShardedCopy, gather, held_in, split, to_all
from .group import Group
from .service import ShardTask
from .slices import slices, stripe_lengths

log = logging.getLogger(__name__)

START = 60.0
"""Seconds for Spark to start the shards."""

SAVED = 60.0
"""Seconds that shards stay for a checkpoint that they write."""

BACK = 30.0
"""Seconds that a reader waits for shards that are lost, and start again."""


class ShardedParameters:
    """See `Parameters`. Starts the shards, and knows what they hold.

    Parameters
    ----------
    layout : Layout
    initial : ndarray, shape (layout.nbytes,), uint8
        Copied.
    combiner : Combiner
    count : int
        Shards; a small model has fewer.
    stripe_bytes : int
        At most; see `stripe_lengths`.
    beside : callable
        Returns what starts tasks in the cluster.
    lost : callable
        Called from any thread when shards are lost, with the reason.
    rows : SavedRows, optional
        Those of served tables that were trained before.
    """

    def __init__(
        self,
        layout: Layout,
        initial: Buffer,
        combiner: Combiner,
        count: int,
        stripe_bytes: int,
        beside: Callable[[], Beside],
        lost: Callable[[TosError], object],
        rows: SavedRows | None = None,
    ) -> None:
        require_by_row(layout, combiner)
        self.layout = layout
        self.commits = Commits()
        self.torn: str | None = None
        self._lengths = stripe_lengths(layout, stripe_bytes)
        self._parts = slices(layout, count, self._lengths)
        self._combiner = combiner
        self._make_beside = beside
        self._beside: Beside | None = None
        self._lost = lost
        self._rows = RowsOfShards(rows or SavedRows(layout.served))
        self._kept = Copied(initial.copy(), 0, {}, [], self.rows)
        self._kept_for: Combiner | None = None
        """The combiner whose state was kept; None if it begins with empty state."""
        self._swaps = 0
        """How many combiners there were before; a copy has the state of one."""
        self._served = False
        self._group: Group | None = None
        self._copies: Copies | None = None
        self._job: Future[None] | None = None
        # One order to all shards at a time.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)

    @property
    def version(self) -> int:
        """See `Parameters.version`."""
        return self.commits.version

    @property
    def rows(self) -> SavedRows:
        """Those of served tables, as of the last copy."""
        return self._rows.saved

    def go_on(self, version: int, torn: str | None, rows: SavedRows | None = None) -> None:
        """Count on from a version, before any worker joins."""
        self.torn = torn
        self._rows = RowsOfShards(rows or self.rows)
        self._kept = self._kept._replace(version=version, rows=self.rows)
        self.commits.restart(version, None, "")

    def serve(self, onward: Callable[[], bool]) -> None:
        """Start the shards, and give them the parameters; return if they have them already.

        Parameters
        ----------
        onward : callable
            Returns whether the run continues.

        Raises
        ------
        ClusterUnreachable
            They did not start in time, or are lost: `restore` comes first.
        """
        with self._lock:
            if self._group is not None:
                if self._group.error is not None:
                    raise self._group.error
                return
            started = self._start(onward)
            if started is None:
                return
            group, generation = started
            try:
                self._give(group)
            except BaseException:
                group.end()
                self._end_job()
                raise
            self.commits.restart(self._kept.version, group, generation)
            self._group, self._served = group, True
            self._copies = Copies(group, self.layout, self._parts, self._changed)
            self._changed.notify_all()

    def _start(self, onward: Callable[[], bool]) -> tuple[Group, str] | None:
        token, generation = secrets.token_hex(16), secrets.token_hex(16)
        group = Group(len(self._parts), self._lost)
        layouts = tuple(part.layout for part in self._parts)
        made = layouts, self._lengths, self._combiner, self.layout.served
        task = ShardTask(token, generation, *made)
        beside = self._beside = self._make_beside()
        beside.services.add(token, group.seat)
        try:
            self._job = job = beside.start(task, group.count)
            job.add_done_callback(lambda ended: group.lose(_why(ended)))
            if group.wait(START, onward):
                return group, generation
        finally:
            beside.services.remove(token)
        come, error = group.come, group.error
        group.end()
        self._end_job()
        if error is not None:
            raise error
        if not onward():
            return None
        raise ClusterUnreachable(
            f"Expected {group.count} shards of the parameters within {START:g} s, got {come}. "
            "Each is a Spark task in addition to the workers: free as many slots, or take fewer "
            "workers or shards."
        )

    def _give(self, group: Group) -> None:
        """Give each shard its part of what is kept."""
        same = self._kept_for is self._combiner
        group.command("load", split(self._parts, self._kept, same), ANSWER)
        self._rows.give(group)

    def files(self) -> Sequence[RowsFile]:
        """See `ServedParameters.files`."""
        self._present(lambda group: self._fetch(group, False, rows=True))
        return self.rows.files

    def find_rows(self, table: int, ids: Array) -> Array:
        """See `ServedParameters.find_rows`."""
        with self._changed:
            return self._rows.find(self._present_group(), table, ids)

    def read(self, out: Buffer | None = None, patience: float | None = None) -> tuple[Buffer, int]:
        """See `Parameters.read`: all that counts is in it, and no more."""
        copied = self._present(lambda group: self._fetch(group, False), patience)
        buffer = self.layout.allocate() if out is None else out
        for mine, others in zip(
            self.layout.vectors(buffer), self.layout.vectors(copied.center), strict=True
        ):
            mine[...] = others
        return buffer, copied.version

    def _present(self, fetch: Callable[[Group], Copied], patience: float | None = None) -> Copied:
        """Return what shards hold, or what is kept where there are none."""
        with self._changed:
            group = self._present_group(patience)
            return self._kept if group is None else fetch(group)

    def _present_group(self, patience: float | None = None) -> Group | None:
        """Return the shards, if there are any, once those that were lost are back."""
        back = self._changed.wait_for(
            lambda: self._group is None or self._group.error is None,
            BACK if patience is None else patience,
        )
        group = self._group
        if group is not None and not back:
            assert group.error is not None
            raise group.error
        return group

    def copy(self, entered: Callable[[], object]) -> Copied:
        """Return a copy with the combiner's state; see `Trainer.snapshot`."""
        with self._lock:
            self._require_whole()
            if self._group is None:
                entered()
                return self._kept
            return self._fetch(self._group, True, entered, rows=True)

    def copy_apart(self, entered: Callable[[], object]) -> Copied | ShardedCopy:
        """Return a copy that stays in the shards, where they can write it."""
        with self._lock:
            copies = self._copies
            # Rows of served tables come to the driver, and have to be of the same moment.
            if copies is None or copies.refused is not None or self.layout.served:
                return self.copy(entered)
            self._require_whole()
            number = copies.hold()
            try:
                version = self._cut(copies.group, number, True, entered)
                self._require_whole()
            except BaseException:
                copies.forget(number)
                raise
            return ShardedCopy(copies, number, version, self._swaps)

    def _require_whole(self) -> None:
        if self.torn is not None:
            raise CheckpointError(f"{self.torn} No checkpoint is written of it.")

    def _cut(
        self,
        group: Group,
        number: int,
        state: bool,
        entered: Callable[[], object],
        rows: bool = False,
    ) -> int:
        """Let shards copy what counts; return its version."""
        with self.commits.held() as reached:
            asked = parcel.pack({"reached": reached, "state": state, "copy": number})
            answers = group.command("copy", [asked] * group.count, ANSWER)
            if rows:
                self._rows.copy(group)
            version = self.commits.version
            entered()
        for merged, _ in answers:
            if merged != version:
                self.torn = (
                    f"A shard has merged {merged} pushes, and the driver has counted {version}."
                )
        return version

    def _fetch(
        self,
        group: Group,
        state: bool,
        entered: Callable[[], object] = lambda: None,
        rows: bool = False,
    ) -> Copied:
        version = self._cut(group, 0, state, entered, rows)
        answers = group.command("send", [parcel.pack({"copy": 0})] * group.count, ANSWER)
        held = held_in(self._parts, answers)
        if rows:
            self._rows.receive(group)
        copied = gather(self.layout.nbytes, version, self._swaps, held)._replace(rows=self.rows)
        if not state:
            return copied._replace(state={})
        self._require_whole()
        return copied

    def load(self, buffer: Buffer) -> None:
        """See `Parameters.load`; what the combiner keeps stays."""
        with self._lock:
            group = self._group
            if group is None:
                self._kept = self._kept._replace(center=buffer.copy())
                return
            with self.commits.held() as reached:
                asked = parcel.pack({"reached": reached, "state": False, "copy": 0})
                group.command("copy", [asked] * group.count, ANSWER)
                value = {"version": self.commits.version, "state": None}
                payloads = [parcel.pack(value, [buffer[p.start : p.stop]]) for p in self._parts]
                to_all(group, "load", payloads)

    def restore(self, copied: Copied) -> None:
        """Continue from a copy, with shards that start with it.

        Raises
        ------
        CheckpointError
            It is of other parameters; nothing was changed.
        """
        rows = copied.rows or SavedRows(self.layout.served)
        if rows.tables != self.layout.served:
            raise CheckpointError(
                f"Expected rows of tables {self.layout.served}, got those of {rows.tables}. "
                "ServedEmbedding layers and the optimizer have to be those from before."
            )
        stripes = sum(part.stripes for part in self._parts)
        found = len(copied.state.get("stripes", ()))
        if copied.center.shape != (self.layout.nbytes,) or found not in (0, stripes):
            raise CheckpointError(
                f"Expected parameters of {self.layout.nbytes} bytes in {stripes} stripes; got "
                f"{copied.center.nbytes} bytes, and the combiner's state of {found} stripes."
            )
        with self._lock:
            if not self._served:
                self._swaps = copied.state.get("swaps", 0)
            same = copied.state.get("swaps", 0) == self._swaps
            self._end()
            self._rows, self._kept = RowsOfShards(rows), copied._replace(rows=rows)
            self._kept_for = self._combiner if same else None
            # Nothing else is ever copied than what is whole.
            self.torn = None
            self.commits.restart(copied.version, None, "")

    def swap(self, combiner: Combiner, entered: Callable[[], object]) -> None:
        """Merge by another combiner, which begins with empty state.

        Raises
        ------
        ConfigError
            It cannot merge rows of served tables; nothing was changed.
        """
        require_by_row(self.layout, combiner)
        with self._lock:
            if self._group is not None and self._group.error is None:
                asked = parcel.pack(describe(combiner, MADE))
                to_all(self._group, "swap", [asked] * self._group.count)
            self._combiner, self._kept_for = combiner, None
            self._swaps += 1
            entered()

    def close(self) -> None:
        """Take the parameters back, and end the shards; may be repeated.

        Raises
        ------
        TosError
            They are lost.
        """
        with self._lock:
            if self._copies is not None:
                self._copies.settle(SAVED)
            group = self._group
            if group is None:
                return
            try:
                self._kept = self._fetch(group, False, rows=True)
                self._kept_for = None
            finally:
                self._end()

    def _end(self) -> None:
        group, self._group, self._copies = self._group, None, None
        lost = group is not None and group.error is not None
        if group is not None:
            group.end()
        # Spark would start a lost one again, which is not expected any more.
        self._end_job(0.0 if lost else 2.0)
        self._changed.notify_all()

    def _end_job(self, patience: float = 0.0) -> None:
        job, self._job = self._job, None
        if job is not None and not wait([job], patience).done:
            with suppress(TosError):
                if self._beside is not None:
                    self._beside.cancel()
            wait([job], 5.0)


def _why(job: Future[None]) -> TosError:
    error = job.exception()
    if error is None:
        return ClusterUnreachable("The Spark job of the shards ended before the run.")
    log.info("The Spark job of the shards failed: %s", error)
    return ClusterUnreachable("A shard of the parameters was lost with its Spark task.")
