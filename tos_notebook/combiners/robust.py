"""Rules that a minority of bad workers cannot mislead.

Changes are collected until K workers have pushed: one voice for each worker, so that a fast one
does not outvote the rest. A worker that pushes again meanwhile began at the same center again,
so its voice is the mean of its changes; their sum would overshoot. A change with NaN or infinity
in it has no voice, but its worker has spoken: the round does not wait for it. K voices are
aggregated, and the aggregate is merged as one push of a single worker: added to the center, or
handed to a server optimizer, ``Median(then=FedAdam())``.

With K = n the slowest worker sets the pace. Fewer than three voices have neither a majority nor
protection. A round that is not full when a run ends is dropped.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..common.arrays import Array
from ..common.checks import at_least_one, below
from ..errors import ConfigError
from .arithmetic import narrow, pieces, sum_of_squares, wide_dtype, widen_delta
from .base import Combiner, Part, PushInfo, StatefulCombiner, prepares
from .stateless import Downpour


class RobustCombiner(StatefulCombiner):
    """Collect the changes of K workers, then merge what `aggregate` makes of them.

    Parameters
    ----------
    k : int, optional
        Workers of a round; by default, and at most, the active ones.
    then : Combiner, optional
        What merges the aggregate: a built-in rule that takes changes. By default it is added.

    Raises
    ------
    ConfigError
        `k` is below 1, or `then` is not a built-in rule that takes changes.
    """

    striped = True
    compares = True
    state = "up to K changes, one for each worker; that of `then`"

    def __init__(self, k: int | None = None, then: Combiner | None = None) -> None:
        self.k = None if k is None else at_least_one(f"{type(self).__name__}(k)", k)
        self.then = None if then is None else _require_elementwise(type(self).__name__, then)

    @abstractmethod
    def aggregate(self, changes: Array) -> Array:
        """Return one change for those of K workers.

        Parameters
        ----------
        changes : ndarray, shape (K, ...)
            A worker's in each row, in the dtype to compute in. They may be overwritten.

        Returns
        -------
        ndarray, shape (...)
            Of the same dtype.
        """

    def due(self, push: PushInfo) -> int:
        """Return how many workers make a round; to wait for more than there are is for ever.

        Parameters
        ----------
        push : PushInfo
            The latest.
        """
        return min(self.k or push.workers, push.workers)

    def of_statistics(self) -> Combiner:
        """Return the same, before the other rule's own; see `Combiner.of_statistics`."""
        rule: RobustCombiner = copy.copy(self)
        rule.then = self.then and self.then.of_statistics()
        return rule

    def reset(self, like: Array) -> None:
        """Set the empty state; see `StatefulCombiner.reset`."""
        self.then = (self.then or Downpour()).begin(like)
        self.voices: dict[int, Array] = {}
        self.counts: Counter[int] = Counter()
        self.spoiled: set[int] = set()
        self.spare: list[Array] = []

    def dump(self) -> Mapping[str, Any]:
        """Return the voices, without the memory of those to come; see `Combiner.dump`."""
        return {**super().dump(), "spare": []}

    def prepare(self, parts: Sequence[Part], push: PushInfo) -> None:
        """Make room for another voice, while it can fail without harm."""
        for rule, center, _ in parts:
            assert isinstance(rule, RobustCombiner)
            if push.finite and push.worker not in rule.voices and not rule.spare:
                rule.spare.append(np.empty(center.shape, wide_dtype(center.dtype)))

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Count the worker's voice; see `Combiner.merge`."""
        worker = push.worker
        if push.finite:
            voice = self.joined(worker, widen_delta(update))
            if worker not in self.voices:
                self.voices[worker] = self.spare.pop()
            self.voices[worker][...] = voice
            self.counts[worker] += 1
        else:
            self.spoiled.add(worker)
        if self.is_full(push):
            self._end_round(center, push)
        update[...] = center

    def is_full(self, push: PushInfo) -> bool:
        """Return whether as many workers have spoken as make a round.

        Parameters
        ----------
        push : PushInfo
            The latest, which counts as well.
        """
        return len(self.voices.keys() | self.spoiled | {push.worker}) >= self.due(push)

    def joined(self, worker: int, change: Array) -> Array:
        """Return what the voice of a worker will be with another change: the mean of its changes.

        Parameters
        ----------
        worker : int
            Its partition.
        change : ndarray
            Of the slice's shape, in the dtype to compute in.

        Returns
        -------
        ndarray
            `change` itself if it is the worker's first in this round.
        """
        voice = self.voices.get(worker)
        if voice is None:
            return change
        pushes = self.counts[worker] + 1
        # The difference of the two may overflow where their mean does not.
        return np.asarray(voice - voice / pushes + change / pushes)

    def _end_round(self, center: Array, push: PushInfo) -> None:
        voices = list(self.voices.values())
        self.voices.clear()
        self.counts.clear()
        self.spoiled.clear()
        self.spare += voices
        if not voices:
            return
        step = narrow(self.aggregate(np.stack(voices)), center.dtype)
        assert self.then is not None
        self.then.merge(center, step, push._replace(workers=1))


class TrimmedMean(RobustCombiner):
    """The mean of what is left, for each parameter, without the smallest and largest changes.

    Parameters
    ----------
    trim : float
        Share of the changes to leave out at either end, in [0, 0.5). At least this share, but
        not all: of 3 changes one at either end, whatever `trim` above 0.
    k : int, optional
    then : Combiner, optional
        See `RobustCombiner`.

    Raises
    ------
    ConfigError
        `trim` is not in [0, 0.5); see also `RobustCombiner`.
    """

    name = "trimmedmean"
    rule = "K workers: c += the mean of Δ without the ⌈trim K⌉ smallest and largest, elementwise"
    source = "Yin et al. 2018, arXiv:1803.01498; flower"
    when = "Some workers may send nonsense; smoother than the median."

    def __init__(self, trim: float = 0.2, k: int | None = None, then: Combiner | None = None):
        super().__init__(k, then)
        self.trim = below("TrimmedMean(trim)", trim, 0.5)

    def cut(self, voices: int) -> int:
        """Return how many changes to leave out at either end.

        Parameters
        ----------
        voices : int
            K, how many changes there are.
        """
        wanted = math.ceil(round(self.trim * voices, 9))
        return min(wanted, (voices - 1) // 2)

    def aggregate(self, changes: Array) -> Array:
        """Return the trimmed mean; see `RobustCombiner.aggregate`."""
        return _mean_between(changes, self.cut(len(changes)))


class Median(RobustCombiner):
    """The median change, for each parameter; `RobustCombiner` explains `k` and `then`."""

    name = "median"
    rule = "K workers: c += the median of Δ, elementwise"
    source = "Yin et al. 2018, arXiv:1803.01498; flower"
    when = "Up to half of the workers may send nonsense; slower where changes are skewed."

    def aggregate(self, changes: Array) -> Array:
        """Return the median; see `RobustCombiner.aggregate`."""
        return _mean_between(changes, (len(changes) - 1) // 2)


class MultiKrum(RobustCombiner):
    """The mean of the K - f changes that lie nearest to their neighbors.

    A change's score is the sum of its squared distances, over the whole model, to its
    K - f - 2 nearest ones.

    Parameters
    ----------
    f : int
        How many bad workers to expect; K should be at least 2 f + 3.
    k : int, optional
    then : Combiner, optional
        See `RobustCombiner`.

    Raises
    ------
    ConfigError
        `f` is below 1, or `k` below 2 f + 3.
    """

    name = "multikrum"
    rule = "K workers: c += the mean of the K - f Δ of least distance to their K - f - 2 nearest"
    source = "Blanchard et al. 2017, arXiv:1703.02757; flower"
    when = "Workers that are bad as a whole: a change is left out with all its parameters."

    def __init__(self, f: int = 1, k: int | None = None, then: Combiner | None = None) -> None:
        super().__init__(k, then)
        self.f = at_least_one("MultiKrum(f)", f)
        if self.k is not None and self.k < 2 * self.f + 3:
            raise ConfigError(
                f"MultiKrum: expected k >= 2 f + 3 = {2 * self.f + 3}, got k={self.k}."
            )

    def reset(self, like: Array) -> None:
        """Set the empty state; see `StatefulCombiner.reset`."""
        super().reset(like)
        self.chosen = np.zeros(0, np.intp)

    def prepare(self, parts: Sequence[Part], push: PushInfo) -> None:
        """Make room, and choose from the distances over all parameters if the round is full."""
        super().prepare(parts, push)
        first = parts[0].rule
        assert isinstance(first, MultiKrum)
        if not first.is_full(push):
            return
        with np.errstate(over="ignore"):  # a distance may well be infinite: it is the largest
            distances = sum(_distances(part, push) for part in parts)
        chosen = self._choose(np.asarray(distances))
        for rule, _, _ in parts:
            assert isinstance(rule, MultiKrum)
            rule.chosen = chosen

    def _choose(self, distances: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
        voices = len(distances)
        nearest = np.sort(distances, axis=1)[:, 1 : 1 + max(1, voices - self.f - 2)]
        order = np.argsort(nearest.sum(axis=1), kind="stable")
        return np.sort(order[: max(1, voices - self.f)])

    def aggregate(self, changes: Array) -> Array:
        """Return the mean of those chosen; see `RobustCombiner.aggregate`."""
        return _mean(changes[self.chosen])


def _require_elementwise(owner: str, then: Combiner) -> Combiner:
    fits = isinstance(then, Combiner) and then.pushes == "delta"
    if not fits or not then.striped or prepares(then):
        raise ConfigError(
            f"{owner}: expected then to be a built-in combiner that takes changes one parameter "
            f"at a time, such as FedAdam(); got {then!r}."
        )
    return then


def _mean_between(changes: Array, cut: int) -> Array:
    """Return the mean without the `cut` smallest and largest; `changes` is overwritten."""
    if cut:
        rows = changes.reshape(len(changes), -1)
        for piece in pieces(rows.shape[1]):
            _to_the_ends(rows[:, piece], cut)
    return _mean(changes[cut : len(changes) - cut])


def _to_the_ends(rows: Array, cut: int) -> None:
    """Exchange elements within columns until the extreme ones are in the outer rows.

    On few long rows this is several times faster than numpy's sort along the short axis.
    """
    for done in range(cut):
        last = len(rows) - 1 - done
        for i in (*range(done, last), *reversed(range(done, last - 1))):
            low, high = rows[i], rows[i + 1]
            smaller = np.minimum(low, high)
            np.maximum(low, high, out=high)
            low[...] = smaller


def _mean(changes: Array) -> Array:
    # The sum of finite changes may overflow where their mean does not.
    return np.asarray((changes / changes.dtype.type(len(changes))).sum(axis=0))


def _distances(part: Part, push: PushInfo) -> npt.NDArray[np.float64]:
    """Return the squared distances between the voices, this push included, in one slice."""
    rule, _, update = part
    assert isinstance(rule, MultiKrum)
    voices = rule.voices
    if push.finite:
        voices = voices | {push.worker: rule.joined(push.worker, widen_delta(update))}
    rows = [voice.reshape(-1) for voice in voices.values()]
    distances = np.zeros((len(rows), len(rows)))
    for piece in pieces(update.size):
        for i, row in enumerate(rows):
            for j in range(i):
                apart = row[piece] - rows[j][piece]
                distances[i, j] += sum_of_squares(apart)
    return distances + distances.T
