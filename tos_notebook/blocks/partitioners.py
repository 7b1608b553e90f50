"""Partitioners: which partition each row goes to when the data is laid out again."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from ..common.checks import at_least_one, not_negative, positive
from ..common.hashing import mix64, mix_key
from ..common.rows import Rows
from ..errors import ConfigError

Integers = npt.NDArray[np.int64]
Targets = npt.NDArray[np.integer[Any]]


@runtime_checkable
class Partitioner(Protocol):
    """Decides where rows go. A pure function: a recomputed partition is the same partition."""

    def assign(self, rows: int, epoch: int, partition: int) -> Targets:
        """Return the target partition of each row of one source partition.

        Parameters
        ----------
        rows : int
            Rows in the source partition.
        epoch : int
            The epoch the new layout is for.
        partition : int
            The source partition.

        Returns
        -------
        ndarray, shape (rows,), any integer dtype
            From 0; in the order of the rows.
        """


@runtime_checkable
class LabelPartitioner(Protocol):
    """Decides by their labels where rows go, so that partitions differ in their mix.

    A pure function, as `Partitioner` is. It is asked once, in the driver, for each layout; the
    layout is the same in every epoch.

    Attributes
    ----------
    num_partitions : int
        Number of target partitions.
    """

    num_partitions: int

    def deal(self, counts: Integers) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Cut the rows, sorted by label, into pieces, and say where each of them goes.

        Parameters
        ----------
        counts : ndarray, shape (classes,), int64
            Rows of each label, in ascending order of the labels; all above 0.

        Returns
        -------
        ends : array_like of int, shape (pieces,)
            The place in the sorted rows where each piece ends, ascending; the last is the number
            of rows. A piece may be empty.
        targets : array_like of int, shape (pieces,)
            The partition that each piece goes to.
        """


AnyPartitioner: TypeAlias = Partitioner | LabelPartitioner


class RandomPartitioner:
    """Deals the rows of each source partition out at random, to every partition as many.

    By a hash of a row's place in the data; partitions differ by at most one row for each source.

    Parameters
    ----------
    num_partitions : int
        Number of target partitions, at least 1.
    seed : int
        Another seed gives another layout.

    Raises
    ------
    ConfigError
        `num_partitions` is below 1.
    """

    summary = "Deals rows out at random, to every partition as many."
    when = "As a rule: every partition has about the mix of all rows."
    source = ""
    example = "RandomPartitioner(4)"

    def __init__(self, num_partitions: int, seed: int = 0) -> None:
        if num_partitions < 1:
            raise ConfigError(f"num_partitions: expected at least 1, got {num_partitions}.")
        self.num_partitions = num_partitions
        self.seed = seed

    def assign(self, rows: int, epoch: int, partition: int) -> npt.NDArray[np.int64]:
        """Return the target partition of each row; see `Partitioner.assign`.

        Parameters
        ----------
        rows, epoch, partition : int
            Of the source partition; that the layout is for; the source partition.

        Returns
        -------
        ndarray, shape (rows,), int64
            In 0 .. `num_partitions` - 1.
        """
        key = mix_key(self.seed, epoch, partition)
        hashes: npt.NDArray[np.uint64] = mix64(np.arange(rows, dtype=np.uint64) ^ np.uint64(key))
        targets = np.empty(rows, np.int64)
        # Each source begins with another partition, so that short ones do not all fill the first.
        turns = np.arange(rows, dtype=np.int64) + key % self.num_partitions
        targets[np.argsort(hashes, kind="stable")] = turns % self.num_partitions
        return targets

    def __repr__(self) -> str:
        return f"RandomPartitioner({self.num_partitions}, seed={self.seed})"


class Shards:
    """Gives each partition a few shards of the rows sorted by label, so that it sees few labels.

    All rows, sorted by label, are cut into ``num_partitions * shards_per_partition`` shards, as
    even as can be, and dealt out at random. McMahan, Moore, Ramage, Hampson and Agüera y Arcas,
    "Communication-efficient learning of deep networks from decentralized data",
    arXiv:1602.05629, who give each client two.

    Parameters
    ----------
    num_partitions : int
        At least 1.
    shards_per_partition : int
        At least 1; the more, the more alike the partitions are.
    seed : int
        At least 0; another one deals the same shards out differently.

    Raises
    ------
    ConfigError
        A value out of range.
    """

    summary = "Gives each partition a few shards of the rows sorted by label."
    when = "To see what workers learn that have seen few labels."
    source = "McMahan et al. 2017, arXiv:1602.05629"
    example = "Shards(4, 2)"

    def __init__(self, num_partitions: int, shards_per_partition: int = 2, seed: int = 0) -> None:
        self.num_partitions = at_least_one("num_partitions", num_partitions)
        self.shards_per_partition = at_least_one("shards_per_partition", shards_per_partition)
        self.seed = not_negative("seed", seed)

    def deal(self, counts: Integers) -> tuple[Integers, Integers]:
        """Return the shards' ends and owners; see `LabelPartitioner.deal`.

        Raises
        ------
        ConfigError
            There are more shards than rows.
        """
        rows, shards = int(counts.sum()), self.num_partitions * self.shards_per_partition
        if shards > rows:
            raise ConfigError(
                f"{self!r}: expected at least a row for each of its {shards} shards, got {rows} "
                "rows. Take fewer partitions, or fewer shards for each."
            )
        ends = rows * np.arange(1, shards + 1, dtype=np.int64) // shards
        dealt = np.random.default_rng(self.seed).permutation(shards)
        return ends, dealt // self.shards_per_partition

    def __repr__(self) -> str:
        return f"Shards({self.num_partitions}, {self.shards_per_partition}, seed={self.seed})"


class Dirichlet:
    """Draws each partition's mix of labels from a symmetric Dirichlet distribution.

    The rows of each label are divided in proportion to the shares that the partitions drew of
    it, so every row is used. Partitions differ in size as well. Hsu, Qi and Brown,
    "Measuring the effects of non-identical data distribution for federated visual
    classification", arXiv:1909.06335.

    Parameters
    ----------
    num_partitions : int
        At least 1.
    alpha : float
        The parameter of each label, above 0. Large: every partition has the mix of all rows.
        Small: mostly one label.
    seed : int
        At least 0; another one draws other mixes.

    Raises
    ------
    ConfigError
        A value out of range.
    """

    summary = "Draws each partition's mix of labels from a Dirichlet distribution."
    when = "To choose by alpha how unlike partitions are; they also differ in size."
    source = "Hsu, Qi, Brown 2019, arXiv:1909.06335"
    example = "Dirichlet(4, alpha=0.5)"

    def __init__(self, num_partitions: int, alpha: float, seed: int = 0) -> None:
        self.num_partitions = at_least_one("num_partitions", num_partitions)
        self.alpha = positive("alpha", alpha)
        self.seed = not_negative("seed", seed)

    def deal(self, counts: Integers) -> tuple[Integers, Integers]:
        """Return where labels' rows are cut, and whose they are; see `LabelPartitioner.deal`."""
        shares = self._shares(len(counts))
        cuts = np.rint(np.cumsum(shares, axis=1) * counts[:, None]).astype(np.int64)
        cuts[:, -1] = counts
        ends = cuts + (np.cumsum(counts) - counts)[:, None]
        return ends.ravel(), np.tile(np.arange(self.num_partitions), len(counts))

    def _shares(self, labels: int) -> npt.NDArray[np.float64]:
        """Return how much of each label's rows goes to each partition; rows add up to 1."""
        random = np.random.default_rng(self.seed)
        shape = labels, self.num_partitions
        # A gamma variate of alpha is one of alpha + 1 times U^(1/alpha). By their logarithms,
        # because a small alpha makes nearly all of them too small for a float.
        mixes = np.log(random.standard_gamma(self.alpha + 1, shape))
        mixes += np.log1p(-random.random(shape)) / self.alpha
        mixes -= np.logaddexp.reduce(mixes, axis=0)
        mixes -= np.logaddexp.reduce(mixes, axis=1, keepdims=True)
        shares: npt.NDArray[np.float64] = np.exp(mixes)
        return shares

    def __repr__(self) -> str:
        return f"Dirichlet({self.num_partitions}, {self.alpha}, seed={self.seed})"


_BUILT_IN = (RandomPartitioner, Shards, Dirichlet)

PARTITIONERS: dict[str, type] = {kind.__name__: kind for kind in _BUILT_IN}
"""Those that a checkpoint can name."""


def describe() -> Rows:
    """Return a row of plain values for each built-in partitioner; they show as a table.

    Returns
    -------
    list of dict
        With keys ``name``, ``summary``, ``when``, ``example``, ``source``.
    """
    keys = "summary", "when", "example", "source"
    return Rows(
        {"name": kind.__name__, **{key: getattr(kind, key) for key in keys}} for kind in _BUILT_IN
    )


def checked_assignment(
    partitioner: Partitioner, rows: int, epoch: int, partition: int, partitions: int
) -> Targets:
    """Ask a partitioner for its targets and check them.

    Parameters
    ----------
    rows, epoch, partition
        As in `Partitioner.assign`.
    partitions : int
        Number of target partitions.

    Raises
    ------
    ConfigError
        The partitioner returned another shape, no integers, or a partition out of range.
    """
    targets = np.asarray(partitioner.assign(rows, epoch, partition))
    if targets.shape != (rows,) or targets.dtype.kind not in "iu":
        raise ConfigError(
            f"{partitioner!r}: expected integers of shape ({rows},), "
            f"got {targets.dtype} of shape {targets.shape}."
        )
    if rows:
        check_targets(partitioner, targets, partitions)
    return targets


def check_targets(partitioner: AnyPartitioner, targets: Targets, partitions: int) -> None:
    """Refuse targets, at least one, that are not all partitions of a layout."""
    if targets.min() < 0 or targets.max() >= partitions:
        raise ConfigError(
            f"{partitioner!r}: expected target partitions in 0..{partitions - 1}, "
            f"got {targets.min()}..{targets.max()}."
        )
