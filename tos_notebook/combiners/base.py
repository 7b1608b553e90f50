"""What a combiner is: the rule by which the server merges one worker's push.

The server knows no algorithm. It hands a combiner the centre, what the worker pushed and
a :class:`PushInfo`; the combiner changes the centre and says what the worker goes on with.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy.typing as npt

from ..errors import ConfigError
from ..params import Array

Pushes = Literal["delta", "weights"]
"""What workers push: the change since their last pull, or the parameters themselves."""


@dataclass(frozen=True, slots=True)
class PushInfo:
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


class Combiner(ABC):
    """An elementwise rule: element i of the result depends on element i of the inputs alone.

    A subclass needs `merge`; the class attributes say how the server may call it.
    """

    name: str = ""
    """Short name; the class's own by default."""
    pushes: Pushes = "delta"
    """What workers must push for this rule."""
    striped: ClassVar[bool] = False
    """True promises that `merge` never fails and may be called from several threads: the
    store then merges in place, stripe by stripe. Otherwise it merges into a copy, checks
    the result, and commits it at once."""
    rule: ClassVar[str] = ""
    """The formula, in the notation of the documentation."""
    source: ClassVar[str] = ""
    """Where the formula was published."""
    when: ClassVar[str] = ""
    """When to choose it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

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

    def propose(
        self, name: str, center: Array, update: Array, push: PushInfo
    ) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Return the new centre and the reply of one tensor, changing neither argument.

        Parameters
        ----------
        name : str
            The parameter's name.
        center, update : ndarray, of the parameter's shape and dtype
        push : PushInfo
        """
        center, update = center.copy(), update.copy()
        self.merge(center.reshape(-1), update.reshape(-1), push)
        return center, update

    def __repr__(self) -> str:
        parameters = inspect.signature(type(self)).parameters
        given = (f"{p}={getattr(self, p)!r}" for p in parameters if hasattr(self, p))
        return f"{type(self).__name__}({', '.join(given)})"


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
        """Return what `compute` makes of copies of one tensor, as centre and as reply."""
        value = self.compute(center.copy(), update.copy(), push.worker, name)
        return value, value

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Merge one tensor without a name, in place; see `Combiner.merge`."""
        center[...] = self.propose("", center, update, push)[0]
        update[...] = center


def require_fraction(owner: str, name: str, value: float) -> float:
    """Return `value` if it is a number in (0, 1]; raise ConfigError otherwise."""
    if not _is_real(value) or not 0 < value <= 1:
        raise ConfigError(f"{owner}: expected 0 < {name} <= 1, got {value!r}.")
    return value


def require_non_negative(owner: str, name: str, value: float) -> float:
    """Return `value` if it is a finite number of at least 0; raise ConfigError otherwise."""
    if not _is_real(value) or not 0 <= value < math.inf:
        raise ConfigError(f"{owner}: expected a finite {name} >= 0, got {value!r}.")
    return value


def require_count(owner: str, name: str, value: int) -> int:
    """Return `value` if it is a whole number of at least 1; raise ConfigError otherwise."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ConfigError(f"{owner}: expected a whole number {name} >= 1, got {value!r}.")
    return value


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
