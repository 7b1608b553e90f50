"""Takes a worker's push into the center: admits, merges and answers it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ...common.arrays import Buffer
from ...coordination.membership import Member
from ...coordination.reports import Reports, check_range
from ...coordination.requests import WorkerRequests
from ...coordination.settings import Settings
from ...errors import CombinerError, NonFiniteUpdate, TosError
from ...transport.fast_path import Peer
from ...wire.messages import Directive, Poll, Proceed, Push, Reply, Status
from ..base import NonFinite
from . import push as ps
from .center import Center


class Merging:
    """Merges what workers push, and says what they adopt; see `Merger`.

    Threads of all connections call in here. Merging is the long part: no lock of the run is held.
    But a short merge takes a few microseconds: if the center is free, admission, merge and answer
    are one step, in which nothing else happens to the run.

    Parameters
    ----------
    center : Center
    reports : Reports
    requests : WorkerRequests
    non_finite : {"raise", "skip"}
    """

    blocks = False

    def __init__(
        self,
        center: Center,
        reports: Reports,
        requests: WorkerRequests,
        non_finite: NonFinite = "raise",
    ) -> None:
        self._center = center
        self._reports = reports
        self._requests = requests
        self._non_finite = non_finite
        if center.path is not None:
            reports.fast.follow(center.path, center.layout.nbytes, center.tear)

    def push(
        self,
        member: Member,
        message: Push,
        update: Buffer,
        traffic: tuple[int, int] = (0, 0),
    ) -> Reply:
        """See `Merger.push`."""
        if not 0 <= message.base_version <= self._center.version:
            check_range("base_version", message.base_version, 0, self._center.version)
        reply = self._push_at_once(member, message, update, traffic)
        return self._push(member, message, update, traffic) if reply is None else reply

    def _push_at_once(
        self, member: Member, message: Push, update: Buffer, traffic: tuple[int, int]
    ) -> Reply | None:
        """Push a finite update in one step if the center is free; else return None."""
        if not message.finite or not self._center.seize():
            return None
        problem: BaseException | None = None

        def merge(settings: Settings, workers: int) -> int | None:
            nonlocal problem
            push = self._describe(member, message, settings, workers)
            try:
                version, staleness, _ = self._center.merge_seized(update, push)
            except BaseException as error:
                problem = error
                return None
            member.suspect = None
            self._reports.merged(member, message, version, staleness, traffic, workers)
            return version

        try:
            reply = self._reports.commit(member, message, merge)
        finally:
            self._center.release()
        if problem is None:
            return reply
        refuse = partial(self._refuse, member, message, problem)
        return self._conclude(member, message, update, "committed", refuse)

    def arm(self, member: Member, peer: Peer, update: Buffer, apart: bool) -> None:
        """See `Merger.arm`."""
        if not self._center.seize():
            return
        try:
            path = self._center.open_path()
            if path is not None:
                self._reports.fast.arm(member, partial(peer.arm, path, member, update, apart))
        finally:
            self._center.release()

    def _push(
        self, member: Member, message: Push, update: Buffer, traffic: tuple[int, int]
    ) -> Reply:
        status, settings, workers = self._reports.admit(member, message)
        merge = partial(self._merge, member, message, update, settings, workers, traffic)
        return self._conclude(member, message, update, status, merge)

    def _conclude(
        self,
        member: Member,
        message: Push,
        update: Buffer,
        status: Status,
        merge: Callable[[], int | None],
    ) -> Reply:
        """Merge what was admitted; answer it, whether or not it was."""
        merging, version = status == "committed", None
        try:
            if merging:
                version = merge()
                status = "skipped" if version is None else status
            if version is None:
                version = self._center.read(update)[1]
        except BaseException:
            self._reports.abandon(merging)
            raise
        reply, bounded = self._reports.decide(member, message, status, merging, version)
        if bounded and reply.directive is Directive.GO and not self.keeps_own:
            # Others may have reached this milestone since the merge. No worker waits, so none must
            # continue without their pushes.
            return reply._replace(version=self._catch_up(version, update))
        return reply

    def _catch_up(self, version: int, update: Buffer) -> int:
        """Fill in the center if there is a newer one; return the version that `update` holds."""
        return version if self._center.version == version else self._center.read(update)[1]

    def poll(self, member: Member, message: Poll, center: Buffer, owed: bool) -> Proceed:
        """See `Merger.poll`."""
        proceed = self._requests.poll(member, message)
        if proceed.directive is not Directive.GO or (self.keeps_own and not owed):
            return proceed
        return replace(proceed, version=self._center.read(center)[1])

    @property
    def keeps_own(self) -> bool:
        """Whether workers continue with parameters of their own."""
        return self._center.combiner.keeps_own

    def _merge(
        self,
        member: Member,
        message: Push,
        update: Buffer,
        settings: Settings | None,
        workers: int,
        traffic: tuple[int, int],
    ) -> int | None:
        """Return the version that the push made, None if it was refused."""
        push = self._describe(member, message, settings, workers)
        try:
            merged = self._center.merge(update, push)
            if merged.left_out is not None:
                error = self._reports.explain(member, message, merged.left_out)
                self._reports.skip(member, message, error)
                return None
        except BaseException as error:
            self._refuse(member, message, error)
            return None
        finally:
            member.suspect = None
        version, staleness, _ = merged
        self._reports.merged(member, message, version, staleness, traffic, workers)
        return version

    def _describe(
        self, member: Member, message: Push, settings: Settings | None, workers: int
    ) -> ps.Push:
        return ps.Push(
            member.partition,
            message.base_version,
            message.steps,
            message.samples,
            workers,
            None if settings is None else settings.strategy.combiner.pushes,
            message.finite,
            self._non_finite == "skip",
        )

    def _refuse(self, member: Member, message: Push, error: BaseException) -> None:
        """Leave an update out that was not merged, or end the run.

        An unforeseen error is raised, so that Spark tries the push again, unless the ledger has
        told a later attempt that the push counts.
        """
        if isinstance(error, NonFiniteUpdate):
            error = self._reports.explain(member, message, error)
            if self._non_finite == "skip":
                self._reports.skip(member, message, error)
                return
        revoked = self._reports.revoke(member, message, self._tear)
        if revoked and isinstance(error, TosError):
            self._reports.fail(error)
        elif revoked and isinstance(error, Exception):
            raise error
        else:
            self._reports.fail(_not_merged(member, message, error, revoked))

    def _tear(self) -> None:
        self._center.tear("The parameters lack a push that counts as merged.")


def _not_merged(
    member: Member, message: Push, error: BaseException, revoked: bool
) -> CombinerError:
    relies = (
        "It does not count either."
        if revoked
        else "The ledger counts it already. No checkpoint is written of "
        "these parameters. tos.resume continues from the last one before."
    )
    found = CombinerError(
        f"Push {message.sequence} of partition {member.partition}, epoch {message.epoch + 1}, was "
        f"not merged: {type(error).__name__}: {error}. {relies}"
    )
    found.__cause__ = error
    return found
