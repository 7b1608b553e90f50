"""Checks for a combiner of one's own, before it meets a model.

A run finds out late that a rule overwrites its arguments, keeps state from the run before or
returns the wrong shape for a scalar. `check_combiner` finds out in a second, without Spark or
TensorFlow: it lets the server's own store merge random pushes by the rule.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..combiners.base import Combiner, Part, PushInfo
from ..combiners.registry import as_combiner
from ..common.arrays import Array, Buffer
from ..errors import CombinerCheckFailed, CombinerError, ConfigError
from ..layout import Layout, ParameterSpec
from ..strategies.ps.center import Center
from ..strategies.ps.push import Push
from .report import CheckReport, Finding

FLOATS = ("float16", "float32", "float64")

WORKERS = 3
PUSHES = 7
STRIPE = 64
"""Bytes: several stripes even in small models."""


class Skipped(Exception):
    """A check does not apply to a combiner, for the reason given."""


def check_combiner(
    combiner: Any, *, dtypes: Sequence[str] = FLOATS, models: int = 20, seed: int = 0
) -> CheckReport:
    """Check what must hold for any combiner, on random small models and pushes.

    Parameters
    ----------
    combiner : str, Combiner, class, object or function
        Whatever a session takes as a combiner. A class is called for each model, an
        instance copied.
    dtypes : sequence of str
        The parameters' dtypes to try; also integers if the rule is meant for them.
    models : int
        How many random models to try.
    seed : int
        The models and pushes are a pure function of it.

    Returns
    -------
    CheckReport
        Prints as a table; all checks hold, or were skipped.

    Raises
    ------
    CombinerCheckFailed
        A check failed; the message is the report.
    CombinerError
        It is not a combiner.
    ConfigError
        No dtype or no model to try.

    Examples
    --------
    A rule that scales every change by how many workers there are:

    >>> import tos_notebook as tos
    >>> def fair(center, update, push):
    ...     return center + update / push.workers
    >>> tos.testing.check_combiner(fair)
    fair: all checks hold
      ok       random pushes are merged; shapes and dtypes stay, finite values stay finite
      ok       propose leaves its arguments as they are
      skipped  slices or whole, the result is the same: the rule is not striped
      ok       the same pushes give the same result
      ok       one run's state does not leak into another
      ok       an unchanged push leaves the center as it is

    A momentum that is kept in the combiner itself survives a run, which shows at once:

    >>> class Leaky(tos.combiners.Combiner):
    ...     momentum = 0.0
    ...     def merge(self, center, update, push):
    ...         self.momentum = 0.9 * self.momentum + float(update.sum())
    ...         center += self.momentum
    ...         update[...] = center
    >>> tos.testing.check_combiner(Leaky)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tos_notebook.errors.CombinerCheckFailed: Leaky(): a check does not hold
    ...
      FAILED   one run's state does not leak into another: ...
    """
    if not dtypes or models < 1:
        raise ConfigError(
            f"check_combiner: expected at least one dtype and model, got {dtypes!r} and {models}."
        )
    subject = _Subject(combiner)
    cases = [_case(np.random.default_rng([seed, i]), dtypes) for i in range(models)]
    findings = tuple(_run(check, subject, cases) for check in CHECKS)
    report = CheckReport(repr(subject.rule), findings)
    if not report.passed:
        raise CombinerCheckFailed(repr(report))
    return report


class _Subject:
    """The combiner under test, and how to get another one like it."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self.rule = as_combiner(value) if isinstance(value, str | type) else self.fresh()

    def fresh(self) -> Combiner:
        """Return a combiner that has merged nothing yet, if such a one can be had."""
        if isinstance(self._value, str | type):
            return as_combiner(self._value)
        try:
            return as_combiner(copy.deepcopy(self._value))
        except (TypeError, copy.Error):  # locks, files and the like
            return as_combiner(self._value)


@dataclass(frozen=True)
class _Case:
    """A random model and a sequence of changes."""

    layout: Layout
    initial: Buffer
    changes: tuple[Buffer, ...]

    def other(self) -> _Case:
        """Return a case of the same model with other pushes."""
        return _Case(self.layout, self.initial, self.changes[::-1])

    def __str__(self) -> str:
        return ", ".join(f"{spec.name} {spec.shape} of {spec.dtype}" for spec in self.layout.specs)


class _Play:
    """One run: a store, and three workers that push in turn, each a bit stale."""

    def __init__(self, rule: Combiner, case: _Case, stripe_bytes: int = STRIPE) -> None:
        self.case, self.rule = case, rule
        self.store = Center(case.layout, case.initial, rule, stripe_bytes)
        self.adopted = [(case.initial, 0)] * WORKERS
        self.results: list[Buffer] = []

    def step(self) -> None:
        """Push once."""
        number = len(self.results) // 2
        worker = (number * number) % WORKERS
        base, version = self.adopted[worker]
        update = self.case.changes[number].copy()
        if self.rule.pushes == "weights":
            _add(self.case.layout, update, base)
        done = self.store.merge(update, _push(worker, version))
        self.adopted[worker] = update, done.version
        self.results += [update, self.store.read()[0]]

    def to_the_end(self) -> _Play:
        """Push everything."""
        for _ in range(len(self.results) // 2, PUSHES):
            self.step()
        return self

    def tensors(self) -> Iterator[tuple[str, Array]]:
        """Yield every parameter of every reply and center, by name."""
        for buffer in self.results:
            yield from self.case.layout.tensors(buffer).items()


def _merges(subject: _Subject, case: _Case) -> str | None:
    for name, tensor in _Play(subject.fresh(), case).to_the_end().tensors():
        if not np.isfinite(tensor).all():
            return f"parameter {name!r} became NaN or infinite"
    return None


def _keeps_arguments(subject: _Subject, case: _Case) -> str | None:
    rule = subject.fresh()
    centers, updates = (case.layout.tensors(b) for b in (case.initial, case.changes[0]))
    info = PushInfo(0, staleness=0, steps=1, samples=10, workers=1, pushes=0)
    for name, center in centers.items():
        center, update = center.copy(), updates[name].copy()
        flat = center.reshape(-1), update.reshape(-1)
        bound = rule.begin(flat[0])
        rule.prepare([Part(bound, *flat)], info)
        before = center.copy(), update.copy()
        bound.propose(name, center, update, info)
        if not np.array_equal(center, before[0]) or not np.array_equal(update, before[1]):
            return f"propose changed an argument, parameter {name!r}; work on a copy"
    return None


def _works_in_slices(subject: _Subject, case: _Case) -> str | None:
    if not subject.rule.striped:
        raise Skipped("the rule is not striped")
    sliced = _Play(subject.fresh(), case).to_the_end()
    whole = _Play(subject.fresh(), case, stripe_bytes=1 << 20).to_the_end()
    for (name, one), (_, other) in zip(sliced.tensors(), whole.tensors(), strict=True):
        if not _close(one, other):
            return f"parameter {name!r} depends on how the model is cut into slices"
    return None


def _is_deterministic(subject: _Subject, case: _Case) -> str | None:
    one, other = (_Play(subject.fresh(), case).to_the_end() for _ in range(2))
    return _difference(one, other, "two runs of the same pushes differ")


def _shares_no_state(subject: _Subject, case: _Case) -> str | None:
    alone = _Play(subject.fresh(), case).to_the_end()
    rule = subject.fresh()
    first, second = _Play(rule, case), _Play(rule, case.other())
    for _ in range(PUSHES):
        first.step()
        second.step()
    later = _Play(rule, case).to_the_end()
    advice = (
        "keep it in a StatefulCombiner, whose reset is called for each run and slice of the model"
    )
    return _difference(
        alone, first, f"a second run at the same time changes the result; {advice}"
    ) or _difference(alone, later, f"a run after another has another result; {advice}")


def _rests(subject: _Subject, case: _Case) -> str | None:
    if not subject.rule.fixed_point:
        raise Skipped("the rule does not promise it (fixed_point)")
    store = Center(case.layout, case.initial, subject.fresh(), STRIPE)
    update = case.layout.allocate()
    if subject.rule.pushes == "weights":
        update[:] = case.initial
    store.merge(update, _push(0, 0))
    after = case.layout.tensors(store.read()[0])
    for name, before in case.layout.tensors(case.initial).items():
        if not np.array_equal(after[name], before):
            return f"parameter {name!r} moved; if it is meant to, set fixed_point = False"
    return None


Check = Callable[[_Subject, _Case], str | None]

CHECKS: dict[str, Check] = {
    "random pushes are merged; shapes and dtypes stay, finite values stay finite": _merges,
    "propose leaves its arguments as they are": _keeps_arguments,
    "slices or whole, the result is the same": _works_in_slices,
    "the same pushes give the same result": _is_deterministic,
    "one run's state does not leak into another": _shares_no_state,
    "an unchanged push leaves the center as it is": _rests,
}
"""What is checked: each returns what is wrong with a combiner on one model, or None."""


def _run(check: str, subject: _Subject, cases: Sequence[_Case]) -> Finding:
    for case in cases:
        try:
            problem = CHECKS[check](subject, case)
        except Skipped as reason:
            return Finding(check, "skipped", str(reason))
        except CombinerError as error:
            problem = str(error)
        except Exception as error:
            problem = f"raised {type(error).__name__}: {error}"
        if problem:
            return Finding(check, "FAILED", f"{problem} (model: {case})")
    return Finding(check, "ok")


def _case(random: np.random.Generator, dtypes: Sequence[str]) -> _Case:
    count = int(random.integers(1, 5))
    layout = Layout(
        ParameterSpec(
            f"p{i}",
            tuple(int(side) for side in random.integers(1, 7, random.integers(0, 4))),
            dtypes[int(random.integers(len(dtypes)))],
        )
        for i in range(count)
    )
    initial, *changes = (_fill(layout, random) for _ in range(PUSHES + 1))
    return _Case(layout, initial, tuple(changes))


def _fill(layout: Layout, random: np.random.Generator) -> Buffer:
    values = []
    for spec in layout.specs:
        if np.dtype(spec.dtype).kind == "f":
            values.append(random.standard_normal(spec.shape).astype(spec.dtype))
        else:
            values.append(random.integers(0, 4, spec.shape).astype(spec.dtype))
    return layout.pack(values)


def _push(worker: int, base: int) -> Push:
    # One step, because some rules take no more.
    return Push(worker, base, steps=1, samples=10, workers=WORKERS)


def _add(layout: Layout, target: Buffer, other: Buffer) -> None:
    for one, more in zip(layout.vectors(target), layout.vectors(other), strict=True):
        one += more


def _close(one: Array, other: Array) -> bool:
    if one.dtype.kind != "f" or not np.isfinite(one).all():
        return np.array_equal(one, other)
    wide = np.float64
    allowed = 64 * float(np.finfo(one.dtype).eps) * max(1.0, float(np.abs(one).max(initial=0)))
    return bool(np.allclose(one.astype(wide), other.astype(wide), rtol=0, atol=allowed))


def _difference(one: _Play, other: _Play, problem: str) -> str | None:
    for (name, first), (_, second) in zip(one.tensors(), other.tensors(), strict=True):
        if not np.array_equal(first, second):
            return f"parameter {name!r}: {problem}"
    return None
