"""Exercises about images: the size of a convolution, early stopping, what is mixed up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .exercise import exercise, expect

CLASSES = 10


@exercise("images.parameters")
def parameters(theirs: Callable[[int, int, int], Any]) -> str:
    """Look at how many parameters a convolution has."""
    found = theirs(5, 3, 8)
    expect(found is not None, "parameters returns None: let it return a number.")
    expect(
        found not in (5 * 5 * 3 * 8, 5 * 5 * 8, 5 * 3 * 8),
        "There is no bias in this number. Each filter has one.",
    )
    expect(
        found != 5 * 5 * 3 * 8 + 1,
        "This has one bias for the whole layer. Each filter has its own.",
    )
    expect(
        found != (5 * 5 + 1) * 8,
        "This is right for one channel. A filter has a pattern for each of the channels, and adds "
        "up how well they fit.",
    )
    expect(
        found != (5 * 5 + 1) * 3 * 8,
        "This has one bias for each channel of each filter. How many numbers does a filter give "
        "for one place?",
    )
    expect(
        found == (5 * 5 * 3 + 1) * 8 and theirs(3, 1, 16) == 160,
        "Count those of one filter on small numbers first: 1 x 1 pixel, 2 channels.",
    )
    return (
        "The size of the image is not in it: the same patterns are looked for everywhere. A dense "
        "layer of 16 units on 28 x 28 pixels has twice the parameters of the whole network above."
    )


@exercise("images.stopping")
def stopping(theirs: Callable[[Sequence[float], int], Any]) -> str:
    """Look at early stopping."""
    losses = [1.0, 0.8, 0.9, 0.7, 0.76, 0.74, 0.9, 0.6]
    last, best = theirs(list(losses), 2)
    expect(last is not None and best is not None, "Return two numbers: last and best epoch.")
    expect(
        last != 4,
        "With 1.0, 0.8, 0.9, 0.7 ... and patience 2 this ends at epoch 4: it counts all epochs "
        "that were not better. Only those in a row count.",
    )
    expect(
        last not in (6, 7),
        f"With losses 1.0, 0.8, 0.9, 0.7, 0.76, 0.74 ... and patience 2 this ends at epoch {last}, "
        "too late. Compare with the best epoch, not with the one before, and stop as soon as the "
        "patience is used up.",
    )
    expect(last == 5, f"With losses {losses} and patience 2 the last epoch is another than {last}.")
    expect(
        best == 3,
        f"It stops at the right epoch, but epoch {best} was not the best one until then. Later "
        "epochs were never trained.",
    )
    never = theirs([0.5, 0.4, 0.3], 2)
    expect(
        never is not None and None not in never,
        "With losses 0.5, 0.4, 0.3 training is never stopped, and two numbers are missing.",
    )
    expect(
        tuple(never) == (2, 2), "With losses 0.5, 0.4, 0.3 it goes to the end, which is the best."
    )
    expect(
        tuple(theirs([0.5, 0.5, 0.5], 2)) == (2, 0),
        "With losses 0.5, 0.5, 0.5 and patience 2: as good as the best is not an improvement.",
    )
    return (
        "The loss at epoch 7 would have been better still: patience is a bet that this does not "
        "happen. And the weights to keep are those of the best epoch, not of the last."
    )


@exercise("images.confusion")
def confusion(theirs: Callable[[Any, Any], Any]) -> str:
    """Look at a table of confusions."""
    random = np.random.default_rng(0)
    right = random.integers(0, CLASSES - 1, 300)
    # Half are right; no image shows a 9, and none is read as 0.
    read = np.where(random.random(300) < 0.5, right, random.integers(1, CLASSES, 300))
    read[read == 0] = 9
    table = theirs(right.copy(), read.copy())
    expect(table is not None, "confusion returns None: let it return a table.")
    found = np.asarray(table)
    expect(
        found.shape == (CLASSES, CLASSES),
        f"Expected a table of 10 x 10, got shape {found.shape}. A digit that does not occur has "
        "its row and column all the same.",
    )
    counts = np.zeros((CLASSES, CLASSES), int)
    np.add.at(counts, (right, read), 1)
    expect(
        not np.array_equal(found, counts.T),
        "Rows and columns are exchanged: row i is for the images that show an i.",
    )
    expect(
        not np.array_equal(found, counts > 0),
        "No count is above 1, but some pairs occur often. With table[right, read] += 1 NumPy adds "
        "to each place once, however often it is named.",
    )
    expect(
        found.sum() == len(right),
        f"There are {len(right)} images, but the counts add up to {found.sum():g}.",
    )
    expect(np.array_equal(found, counts), "Some pairs are counted in the wrong place.")
    return (
        "The diagonal is what is right. Its share in a row is the recall of that digit, and in a "
        "column the precision of that answer. One number for all digits hides both."
    )
