"""What a combiner is: the rule by which the server merges one worker's push.

The server knows no algorithm. It hands a combiner the center, what the worker pushed and
a :class:`PushInfo`; the combiner changes the center and says what the worker continues with.

A combiner itself holds parameters only. State (momentum, a buffer, what each worker adopted)
lives in what :meth:`Combiner.begin` returns for each slice of the center, which the store
keeps. Every run, and every swap to a combiner, therefore begins with empty state, whatever the
same combiner did before.
"""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy.typing as npt

from ..common.arrays import Array
from ..common.checks import with_known_parameters
from ..persist.values import put_back

Pushes = Literal["delta", "weights"]
"""What workers push: the change since their last pull, or the parameters themselves."""


class PushInfo(NamedTuple):
    """What a combiner may know about a push besides its values."""

    worker: int
    """The partition the worker trains."""
    staleness: int
    """Versions committed between the worker's pull and this push."""
    steps: int
    """Batches trained since the pull."""
    samples: int
    """Records in those batches."""
    workers: int
    """Active workers, at least 1."""
    pushes: int
    """Pushes committed before this one."""
    finite: bool = True
    """Whether the server found neither NaN nor infinity in it; False only where rules compare."""

    @property
    def base(self) -> int:
        """The version that the worker pulled."""
        return self.pushes - self.staleness


class Part(NamedTuple):
    """A slice of the center, the same slice of a push, and the rule that merges the two."""

    rule: Combiner
    """What `Combiner.begin` returned for this slice."""
    center: Array
    """One dtype."""
    update: Array
    """Of the same shape and dtype."""


class Combiner(ABC):
    """An elementwise rule: element i of the result depends on element i of the inputs alone.

    A subclass needs `merge`; the class attributes say how the server may call it. A rule that
    remembers something between pushes is a `StatefulCombiner`.
    """

    name: str = ""
    """Short name; the class's own by default."""
    called: str = ""
    """What makes it, in code: its class, or its preset."""
    pushes: Pushes = "delta"
    """What workers must push for this rule."""
    striped: bool = False
    """True promises that `merge` never fails and may be called from several threads, for one
    slice from one at a time: the store then merges in place, stripe by stripe. Otherwise it
    merges into a copy, checks the result, and commits it at once."""
    fixed_point: bool = True
    """Whether an unchanged push (Δ = 0, or w = c) that meets empty state leaves the center as
    it is. False for a rule that moves by itself, such as one with weight decay."""
    keeps_own: bool = False
    """Whether a worker continues with what `merge` left in `update`, and not with the center. After
    a wait it then does not get the current center."""
    compares: bool = False
    """Whether the rule compares whole updates with each other, so that a codec which sends but a
    few of their values would mislead it. The server looks at each update for NaN and infinity
    itself, whatever the worker says; the rule leaves out those with `PushInfo.finite` False."""
    one_step: bool = False
    """Whether workers must exchange after every step."""
    by_row: bool = False
    """True promises that `merge_rows` merges a few rows of a table, if the rule is `striped`. Else
    tables are merged whole. The rule must leave a row as it is that a worker has not changed."""
    rule: ClassVar[str] = ""
    """The formula, in the notation of the documentation."""
    source: ClassVar[str] = ""
    """Where the formula was published."""
    when: ClassVar[str] = ""
    """When to choose it."""
    state: ClassVar[str] = "none"
    """What it keeps between pushes."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.called = cls.__name__
        if "name" not in cls.__dict__:
            cls.name = cls.__name__
        if "__init__" in cls.__dict__:
            with_known_parameters(cls)

    def begin(self, like: Array) -> Combiner:
        """Return the rule for one slice of the center, with empty state; itself if it has none.

        Parameters
        ----------
        like : ndarray
            The slice, a flat one in a store, for its shape and dtype; its values may be
            changing meanwhile.

        Returns
        -------
        Combiner
            Merges pushes to this slice only.
        """
        return self

    def of_statistics(self) -> Combiner:
        """Return the rule for what is exchanged but not trained, such as moving averages.

        A rule that takes steps of an optimizer must not take them there: it returns one that
        averages or adds. It takes the same `pushes`, and is `striped` if this one is.
        """
        return self

    def fork(self) -> Combiner:
        """Return a copy with a copy of the state; itself if it has none."""
        return self

    def dump(self) -> Mapping[str, Any]:
        """Return the state by name, for a checkpoint; nothing if there is none.

        Returns
        -------
        mapping of str
            Numbers, text, arrays, None, and lists, tuples, sets, dicts, deques and counters of
            them; or objects with `dump` and `restore` of their own.
        """
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `dump` returned; called on what `begin` returned for the same slice.

        Parameters
        ----------
        state : mapping of str
            As `dump` returned it, or read from a checkpoint.

        Raises
        ------
        CheckpointError
            There is more state than `dump` returns now.
        """
        put_back(self, state, self.dump())

    def prepare(self, parts: Sequence[Part], push: PushInfo) -> None:  # noqa: B027
        """Look at a whole push before any of it is merged.

        For what needs all parameters at once (a norm), may refuse the push, or may fail for
        want of memory. Overridden, it is called while no merge is under way.

        Parameters
        ----------
        parts : sequence of Part
            All slices. The updates may be changed; center and state must mean the same to
            the next push as before, because this one may yet be refused.
        push : PushInfo

        Raises
        ------
        CombinerError
            The rule does not apply to this push; nothing is merged.
        """

    @abstractmethod
    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Merge `update` into `center`, both in place.

        Parameters
        ----------
        center : ndarray
            The server's parameters, or any slice of them; one dtype.
        update : ndarray, of the same shape and dtype
            What the worker pushed. On return it holds what the worker adopts.
        push : PushInfo
        """

    def merge_rows(self, center: Array, rows: Array, update: Array, push: PushInfo) -> Array:
        """Merge some rows of a table; called for every push, for no rows, too.

        By default they are merged as a slice of their own, which is right for a rule without state.

        Parameters
        ----------
        center : ndarray, shape (n, width)
            Consecutive rows of the table, changed in place.
        rows : ndarray, shape (k,), int64
            Those that the worker has changed, in ascending order.
        update : ndarray, shape (k, width)
            What it pushed of them. On return it holds what the worker adopts of them.
        push : PushInfo

        Returns
        -------
        ndarray, int64
            The rows of the center that may have changed.
        """
        if rows.size:
            part = center[rows]
            self.merge(part, update, push)
            center[rows] = part
        return rows

    def propose(
        self, name: str, center: Array, update: Array, push: PushInfo
    ) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Return the new center and the reply of one tensor, changing neither argument.

        Parameters
        ----------
        name : str
            The parameter's name.
        center, update : ndarray, of the parameter's shape and dtype
        push : PushInfo

        Returns
        -------
        center, reply : array_like, of the parameter's shape
            The server's new value, and what the worker adopts.
        """
        center, update = center.copy(), update.copy()
        self.merge(center.reshape(-1), update.reshape(-1), push)
        return center, update

    def __repr__(self) -> str:
        parameters = inspect.signature(type(self)).parameters
        values = {p: getattr(self, p) for p in parameters if hasattr(self, p)}
        # A function by its name, without an address.
        given = (f"{p}={getattr(value, '__name__', repr(value))}" for p, value in values.items())
        return f"{self.called}({', '.join(given)})"


class StatefulCombiner(Combiner):
    """A rule that remembers something between pushes, separately for each slice.

    A subclass needs `reset` and `merge`. It keeps state in attributes that `reset` sets, and is
    used through `begin` only::

        class Momentum(StatefulCombiner):
            def reset(self, like):
                self.velocity = np.zeros_like(like)

            def merge(self, center, update, push):
                self.velocity *= 0.9
                self.velocity += update
                center += self.velocity
                update[...] = center

        rule = Momentum().begin(center)
        rule.merge(center, update, push)

    What `reset` sets goes into checkpoints by itself, if it is made of arrays, numbers, text, and
    lists and dicts of them; else `dump` and `restore` must be overridden.

    Every slice sees the same pushes in the same order. If the rule is not `striped`, a push
    is merged into copies of center and state, and a refused one leaves both.
    """

    if not TYPE_CHECKING:  # else every attribute would be known to be there

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"{self.called} has no attribute {name!r}. State is set in reset(like); "
                "merge by what begin(center) returns, not by the combiner itself."
            )

    @abstractmethod
    def reset(self, like: Array) -> None:
        """Set the empty state for a slice.

        Parameters
        ----------
        like : ndarray
            Has the slice's shape and dtype; its values may be changing meanwhile.
        """

    def begin(self, like: Array) -> Self:
        """Return a rule of the same parameters with empty state; see `Combiner.begin`."""
        rule = copy.copy(self)
        rule.reset(like)
        return rule

    def fork(self) -> Self:
        """Return a copy of rule and state; see `Combiner.fork`."""
        return copy.deepcopy(self)

    def dump(self) -> Mapping[str, Any]:
        """Return all attributes but the parameters; see `Combiner.dump`."""
        return _attributes(self)


class TensorCombiner(Combiner):
    """A rule that sees one whole named tensor at a time. Workers push their parameters.

    A subclass needs `compute`. It is called for every tensor of every push, one push at a
    time, and never in the executors.
    """

    pushes: Pushes = "weights"

    @abstractmethod
    def compute(
        self, origin_weight: Array, new_weight: Array, worker_id: int = -1, name: str | None = None
    ) -> npt.ArrayLike:
        """Return the tensor's new value, which the worker adopts too.

        Parameters
        ----------
        origin_weight : ndarray
            The server's value; a copy.
        new_weight : ndarray, of the same shape and dtype
            The worker's value; a copy.
        worker_id : int
            The worker's partition.
        name : str
            The parameter's name.

        Returns
        -------
        array_like, of the same shape
            Finite real numbers; converted to the parameter's dtype.
        """

    def propose(
        self, name: str, center: Array, update: Array, push: PushInfo
    ) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Return what `compute` makes of copies of one tensor, as center and as reply."""
        value = self.compute(center.copy(), update.copy(), push.worker, name)
        return value, value

    def dump(self) -> Mapping[str, Any]:
        """Return all attributes but the parameters; see `Combiner.dump`."""
        return _attributes(self)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over all attributes: `compute` may have added some; see `Combiner.restore`."""
        put_back(self, state)

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Merge one tensor without a name, in place; see `Combiner.merge`."""
        center[...] = self.propose("", center, update, push)[0]
        update[...] = center


def _attributes(rule: Combiner) -> dict[str, Any]:
    """Return what a rule has besides its parameters and its names."""
    known = {"name", "called", *inspect.signature(type(rule)).parameters}
    return {
        name: value
        for name, value in vars(rule).items()
        # A parameter that is a combiner has become that one's rule for the slice.
        if name not in known or isinstance(value, Combiner)
    }


def prepares(combiner: Combiner) -> bool:
    """Return whether a combiner has a `prepare` of its own."""
    return type(combiner).prepare is not Combiner.prepare


def merges_rows(combiner: Combiner) -> bool:
    """Return whether a combiner merges some rows of a table without a look at the others."""
    own = combiner.by_row and combiner.striped
    return own and not (combiner.compares or prepares(combiner))
