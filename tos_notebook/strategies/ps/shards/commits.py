"""The driver's count of what workers have trained, where shards have the parameters."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn

from ....coordination.counting import Counted, MilestoneCounter
from ....coordination.membership import Member
from ....coordination.reports import Reports
from ....coordination.requests import WorkerRequests
from ....errors import NonFiniteUpdate, RemoteProtocolError
from ....transport.base import BytesLike
from ....wire.messages import Answer, Awaiting, Directive, Poll, Push, Ready
from ...base import NonFinite
from .exchange import TRAFFIC
from .group import Group
from .staging import Place, Reached

NOT_FINITE = "The update holds NaN or infinity."


class Commits:
    """What counts, of each partition; no push is merged anywhere before it is here.

    Attributes
    ----------
    version : int
        How many pushes count.
    group : Group or None
        The shards that workers are told of.
    generation : str
        What they name to them.
    """

    def __init__(self) -> None:
        self.version = 0
        self.group: Group | None = None
        self.generation = ""
        self._reached: dict[int, Reached] = {}
        self._lock = threading.Lock()

    def add(self, partition: int, place: Place, workers: int) -> int:
        """Count a push of so many active workers; return the version that it makes."""
        with self._lock:
            self.version += 1
            self._reached[partition] = Reached((place[0], place[1] + 1), workers)
            return self.version

    @contextmanager
    def held(self) -> Iterator[list[tuple[int, int, int, int]]]:
        """Count nothing inside; yield how far each partition is: see `Reached`."""
        with self._lock:
            yield [(partition, *at.place, at.workers) for partition, at in self._reached.items()]

    def named(self, partition: int) -> tuple[int, str, Group | None, int]:
        """Return the version, the generation and the shards, as of one moment.

        Also how many workers were active when the partition's last push was counted.
        """
        with self._lock:
            last = self._reached.get(partition)
            workers = 1 if last is None else last.workers
            return self.version, self.generation, self.group, workers

    def restart(self, version: int, group: Group | None, generation: str) -> None:
        """Count from a version on, with other shards, which no worker knows yet."""
        with self._lock:
            self.version, self.group, self.generation = version, group, generation
            self._reached.clear()


class CommitExchange:
    """Answers one worker; see `WorkerExchange`.

    Parameters
    ----------
    commits : Commits
    reports : Reports
    requests : WorkerRequests
    non_finite : {"raise", "skip"}
    """

    shared = False
    brief = True

    def __init__(
        self,
        commits: Commits,
        reports: Reports,
        requests: WorkerRequests,
        non_finite: NonFinite,
    ) -> None:
        self._commits = commits
        self._reports, self._requests = reports, requests
        self._counter = MilestoneCounter(
            reports,
            lambda: commits.version,
            self._count,
            lambda: NonFiniteUpdate(NOT_FINITE),
            skips=non_finite == "skip",
        )
        self._traffic = bytearray(TRAFFIC.size)

    def open(self) -> None:
        """See `WorkerExchange.open`."""

    def close(self) -> None:
        """See `WorkerExchange.close`."""

    def receive_into(self, message: Push | Poll, nbytes: int) -> memoryview | None:
        """See `WorkerExchange.receive_into`.

        Raises
        ------
        RemoteProtocolError
            It is not of that length.
        """
        expected = TRAFFIC.size if isinstance(message, Push) else 0
        if nbytes != expected:
            name = type(message).__name__
            raise RemoteProtocolError(
                f"{name}: expected a payload of {expected} bytes, got {nbytes}."
            )
        return memoryview(self._traffic) if expected else None

    def push(self, member: Member, message: Push) -> tuple[Answer, BytesLike | None]:
        """See `WorkerExchange.push`; the payload says how many workers there are, and the bound."""
        reply, bounded, workers = self._counter.push(member, message)
        # What others have reached meanwhile, a bounded worker adopts, too.
        least = self._commits.version if bounded else 0
        told = json.dumps([workers, least]).encode()
        return reply._replace(version=max(reply.version, least)), told

    def _count(self, member: Member, message: Push, workers: int) -> Counted:
        place = message.epoch, message.sequence
        version = self._commits.add(member.partition, place, workers)
        staleness = version - 1 - message.base_version
        return Counted(version, staleness, TRAFFIC.unpack(self._traffic))

    def poll(self, member: Member, message: Poll) -> tuple[Answer, BytesLike | None]:
        """See `WorkerExchange.poll`; the payload names the shards."""
        proceed = self._requests.poll(member, message)
        version, generation, group, workers = self._commits.named(member.partition)
        if proceed.directive is not Directive.GO or group is None:
            return proceed, None
        shards = [[m.host, m.port, m.fingerprint] for m in group.members()]
        least = version if self._reports.bounded else 0
        named = json.dumps([generation, least, shards, workers])
        return replace(proceed, version=version), named.encode()

    def form(self, member: Member, message: Ready | Awaiting) -> NoReturn:
        """See `WorkerExchange.form`.

        Raises
        ------
        RemoteProtocolError
            Its workers exchange with shards only.
        """
        raise RemoteProtocolError(
            f"{type(message).__name__}: expected workers that exchange with shards only."
        )
