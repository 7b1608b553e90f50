"""What there is in ``tos.conditions``, as a table."""

from __future__ import annotations

from ..common.rows import Rows

_DESCRIBED = (
    ("loss_below", "The training loss is below a limit.", "loss_below(0.1)", "loss < 0.1"),
    (
        "metric",
        "The training loss or a metric is beyond a limit.",
        'metric("accuracy", above=0.98)',
        "accuracy > 0.98",
    ),
    (
        "validation",
        "A value of the latest evaluation of the validation data is beyond a limit.",
        'validation("accuracy", above=0.98)',
        "val_accuracy > 0.98",
    ),
    (
        "no_improvement",
        "Evaluations of the validation data no longer get better.",
        'no_improvement("accuracy", patience=3)',
        None,
    ),
    (
        "samples",
        "All workers together have trained so many rows; in words also steps of their optimizers.",
        "samples(100_000)",
        "samples >= 100000",
    ),
    (
        "after",
        "So many seconds, minutes or hours have passed since the start.",
        "after(minutes=10)",
        "minutes >= 10",
    ),
)


def describe() -> Rows:
    """Return a row of plain values for each kind of condition; they show as a table.

    Returns
    -------
    list of dict
        With keys ``name``, ``when`` (when it ends the run), ``example``, and ``words``: the same as
        a text, if there is one.
    """
    keys = "name", "when", "example", "words"
    return Rows(dict(zip(keys, row, strict=True)) for row in _DESCRIBED)
