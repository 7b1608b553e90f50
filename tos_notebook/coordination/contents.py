"""The content of each partition, with which rows that come again are compared.

Pure state, as the ledger that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..common.content import Beginning, Content


class Contents:
    """Knows the rows of one layout's partitions.

    Attributes
    ----------
    held : dict of int
        The content of each partition, once a worker has loaded all of its rows.
    earlier : dict of int
        The same of the last layout of which every partition was loaded, if this one has not come
        so far.
    """

    def __init__(self) -> None:
        self.held: dict[int, Content] = {}
        self.earlier: dict[int, Content] = {}
        # Of streams, by epoch and partition: the digest of the rows that are committed, and the
        # one before the last push.
        self._streamed: dict[tuple[int, int], tuple[str, str]] = {}
        self._begun: dict[tuple[int, int], Beginning] = {}

    def turn(self, partitions: int | None) -> bool:
        """Begin another layout; what an epoch's stream has brought stays.

        Parameters
        ----------
        partitions : int or None
            Of the layout so far.

        Returns
        -------
        bool
            Whether every one of them was loaded, so that they are the `earlier` ones now.
        """
        complete = len(self.held) == partitions
        if complete:
            self.earlier = self.held
        self.held = {}
        return complete

    def keep(self, partition: int, content: Content) -> Content:
        """Return what a partition's rows are; what is given, if they come for the first time."""
        return self.held.setdefault(partition, content)

    def streamed(self, epoch: int, partition: int) -> str:
        """Return the digest of a stream's committed rows; empty if none are."""
        return self._streamed.get((epoch, partition), ("", ""))[0]

    def commit(self, epoch: int, partition: int, digest: str, steps: int, partitions: int) -> None:
        """Keep the digest of a stream's rows up to the end of a push.

        Parameters
        ----------
        epoch, partition : int
        digest : str
        steps : int
            The push's batches.
        partitions : int
            Of the layout.
        """
        before = self.streamed(epoch, partition)
        self._streamed[epoch, partition] = digest, before
        if not before:
            begun = Beginning(epoch, partition, partitions, steps, digest)
            self._begun[epoch, partition] = begun
            # A push of this epoch may be revoked, then the one before is the latest.
            for known in (self._streamed, self._begun):
                known.pop((epoch - 2, partition), None)

    def revoke(self, epoch: int, partition: int) -> None:
        """Forget the last push's rows."""
        if (epoch, partition) in self._streamed:
            before = self._streamed[epoch, partition][1]
            self._streamed[epoch, partition] = before, ""
            if not before:
                del self._begun[epoch, partition]

    def beginnings(self) -> list[Beginning]:
        """Return how each stream began in the latest epoch of which some rows are committed."""
        latest = {begun.partition: begun for _, begun in sorted(self._begun.items())}
        return [latest[partition] for partition in sorted(latest)]

    def streams(self) -> list[tuple[int, int]]:
        """Return epoch and partition of each stream of which some rows are committed."""
        return [key for key, (digest, _) in self._streamed.items() if digest]

    def to_json(self, first: int = 0, partitions: int | None = None) -> dict[str, Any]:
        """Return what is known as plain JSON values.

        Parameters
        ----------
        first : int
            The first epoch whose streams are in it. Of the one before, it is how they began:
            between two epochs nothing else is known of them.
        partitions : int, optional
            Of the layout. The earlier one is left out once each of them was loaded.
        """
        earlier = {} if len(self.held) == partitions else self.earlier
        streamed = [(*key, *both) for key, both in sorted(self._streamed.items())]
        return {
            "held": _listed(self.held),
            "earlier": _listed(earlier),
            "streamed": [list(known) for known in streamed if known[0] >= first],
            "begun": [list(b) for _, b in sorted(self._begun.items()) if b.epoch >= first - 1],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Contents:
        """Rebuild what `to_json` has returned."""
        contents = cls()
        contents.held = _by_partition(value["held"])
        contents.earlier = _by_partition(value["earlier"])
        contents._streamed = {
            (epoch, partition): (digest, before)
            for epoch, partition, digest, before in value["streamed"]
        }
        begun = (Beginning(*found) for found in value["begun"])
        contents._begun = {(found.epoch, found.partition): found for found in begun}
        return contents


def _listed(contents: Mapping[int, Content]) -> list[list[Any]]:
    return [[partition, *content] for partition, content in sorted(contents.items())]


def _by_partition(listed: Iterable[Any]) -> dict[int, Content]:
    return {partition: Content(*found) for partition, *found in listed}
