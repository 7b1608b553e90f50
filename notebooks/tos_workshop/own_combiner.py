"""The exercises of ``08_your_own_combiner.ipynb``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tos_notebook.combiners import Combiner, PushInfo, as_combiner
from tos_notebook.errors import CombinerCheckFailed
from tos_notebook.testing import check_combiner

from .exercise import NotYet, exercise, expect

Array = npt.NDArray[np.float64]

CENTER = np.array([1.0, -2.0, 4.0])
UPDATE = np.array([0.6, -0.02, -0.3])


def _push(staleness: int = 0, pushes: int = 10) -> PushInfo:
    return PushInfo(0, staleness, steps=5, samples=40, workers=2, pushes=pushes)


def _asked(function: Any, staleness: int = 0) -> Array:
    """Return what a learner's function makes of the center."""
    found = function(CENTER.copy(), UPDATE.copy(), _push(staleness))
    expect(
        found is not None,
        "The function returns nothing. Expected the center's new values, as fair returns them.",
    )
    value = np.asarray(found, np.float64)
    expect(
        value.shape == CENTER.shape,
        f"Expected an array of the center's shape, {CENTER.shape}, got {value.shape}.",
    )
    return value


def _keeps_the_laws(rule: Any) -> None:
    try:
        check_combiner(rule, models=5)
    except CombinerCheckFailed as failed:
        lines = str(failed).splitlines()
        bad = next(line for line in lines if line.startswith("  FAILED"))
        words = bad.removeprefix("  FAILED").split(" (model:")[0].strip()
        raise NotYet(f"The values are right, but check_combiner finds: {words}.") from None


@exercise("own_combiner.damped")
def damped(function: Any) -> str:
    """Look at c += Δ / sqrt(τ + 1)."""
    _adds_fresh_pushes(function)
    stale = _asked(function, 3)
    moved = stale - CENTER
    expect(
        not np.allclose(moved, UPDATE),
        "A push of staleness 3 moves the center as far as a fresh one: use push.staleness.",
    )
    expect(
        not np.allclose(moved, UPDATE / 4),
        "That is dynsgd: a push of staleness 3 counts a quarter. A square root is to be milder.",
    )
    expect(
        not np.allclose(moved, UPDATE / np.sqrt(3)),
        "Nearly. Staleness 0 divides by 1; what under the root makes that so for every staleness?",
    )
    expect(
        not np.allclose(stale, (CENTER + UPDATE) / 2),
        "The center itself shrinks: divide the change only.",
    )
    expect(
        np.allclose(moved, UPDATE / 2) and np.allclose(_asked(function, 8) - CENTER, UPDATE / 3),
        f"A push of staleness 3 is to count half; it moves the center by {moved} where the change "
        f"is {UPDATE}.",
    )
    _keeps_the_laws(function)
    return (
        "Stale pushes count less, but not so much less as with dynsgd: it is "
        "tos.combiners.DynSGD(exponent=0.5)."
    )


def _adds_fresh_pushes(function: Any) -> None:
    with np.errstate(divide="ignore", invalid="ignore"):
        try:
            fresh = _asked(function)
        except ZeroDivisionError:
            fresh = np.full_like(CENTER, np.nan)
    expect(
        np.isfinite(fresh).all(),
        "A push can be quite fresh: see what becomes of it with a staleness of 0.",
    )
    expect(not np.allclose(fresh, UPDATE), "That is the change; expected the new center.")
    expect(
        np.allclose(fresh, CENTER + UPDATE),
        f"A fresh push, of staleness 0, is to be added as it is: expected {CENTER + UPDATE}, "
        f"got {fresh}.",
    )


@exercise("own_combiner.capped")
def capped(function: Any) -> str:
    """Look at c += Δ, each value limited to 0.1 either way."""
    found = _asked(function)
    moved = found - CENTER
    limited = np.clip(UPDATE, -0.1, 0.1)
    expect(not np.allclose(moved, UPDATE), "Some values move by more than 0.1: nothing is limited.")
    expect(not np.allclose(found, limited), "That is the limited change; expected the new center.")
    expect(
        not np.allclose(found, np.clip(CENTER + UPDATE, -0.1, 0.1)),
        "That limits the center's values; only how far they move is to be limited.",
    )
    expect(
        not np.allclose(moved, np.minimum(UPDATE, 0.1)),
        "Moves up are limited, moves down are not.",
    )
    expect(
        not np.allclose(moved, UPDATE * 0.1 / 0.6),
        "That scales the whole change until its largest value fits. Here each value is limited by "
        "itself: those that are small enough stay as they are.",
    )
    expect(
        np.allclose(moved, limited),
        f"For a change of {UPDATE} the center is to move by {limited}; it moves by {moved}.",
    )
    _keeps_the_laws(function)
    return (
        "No single push can spoil the center now, whatever a worker sends. "
        "tos.combiners.Clip limits the length of the whole change instead, which keeps its "
        "direction."
    )


@exercise("own_combiner.momentum")
def momentum(rule: Any) -> str:
    """Look at v = v / 2 + Δ; c += v, with state of each run and slice."""
    combiner = as_combiner(rule)
    expect(
        combiner.pushes == "delta",
        "Expected a class whose workers push changes, as those of a StatefulCombiner do.",
    )
    first, second = _two_pushes(combiner)
    expect(
        not np.allclose(first, 0),
        "The center does not move. Change it in place: center += ..., not center = center + ...",
    )
    expect(
        np.allclose(first, UPDATE),
        "The first push has nothing before it, and is to be added as it is: expected the center "
        f"to move by {UPDATE}, it moves by {first}.",
    )
    expect(
        not np.allclose(second, UPDATE),
        "The second push moves the center by its own change alone: what is left of the first one? "
        "Keep it in an attribute that reset sets.",
    )
    expect(
        not np.allclose(second, 2 * UPDATE),
        "The second push adds all of the first one again; only half of it is to be left.",
    )
    expect(
        np.allclose(second, 1.5 * UPDATE),
        "Two equal pushes, of staleness 0: expected the second one to move the center by "
        f"{1.5 * UPDATE}, it moves it by {second}.",
    )
    _keeps_the_laws(rule)
    return (
        "The state that reset makes belongs to one run and one slice of the model. The next run, "
        "and the next swap, begin without it."
    )


def _two_pushes(combiner: Combiner) -> tuple[Array, Array]:
    """Return by how much each of two equal pushes moves the center."""
    center = CENTER.copy()
    bound = combiner.begin(center)
    moves = []
    for pushes in (0, 1):
        before, update = center.copy(), UPDATE.copy()
        bound.merge(center, update, _push(pushes=pushes))
        moves.append(center - before)
        expect(
            np.allclose(update, center) or np.allclose(moves[-1], 0),
            "The worker continues with what merge leaves in update: end with update[...] = center.",
        )
    return moves[0], moves[1]
