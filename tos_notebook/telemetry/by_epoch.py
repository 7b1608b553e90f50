"""A run's history, a row for each epoch: what `keras.Model.fit` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def by_epoch(
    milestones: pd.DataFrame, validation: pd.DataFrame, metrics: list[str]
) -> pd.DataFrame:
    """Return one row for each epoch that has begun.

    Parameters
    ----------
    milestones, validation : pandas.DataFrame
        See `History.frame` and `History.validation`.
    metrics : list of str
        Columns of `milestones` that are means over samples, the loss among them.

    Returns
    -------
    pandas.DataFrame
        Columns: epoch (from 1), samples, seconds (from the end of the epoch before, or from the
        first milestone, to the last milestone), each metric as its mean over samples, and each
        value of the epoch's last evaluation with ``val_`` before its name.
    """
    import pandas as pd

    groups = milestones.groupby("epoch")
    samples = groups["samples"].sum()
    ends = groups["time"].max()
    begins = ends.shift(fill_value=milestones["time"].min() if len(milestones) else 0.0)
    table = pd.DataFrame({"samples": samples, "seconds": (ends - begins).clip(lower=0.0)})
    for name in metrics:
        known = milestones[milestones[name].notna()]
        weighted = (known[name] * known["samples"]).groupby(known["epoch"]).sum()
        table[name] = weighted / known.groupby("epoch")["samples"].sum()
    last = validation.groupby("epoch").last().drop(columns=["time", "samples"], errors="ignore")
    return table.join(last.add_prefix("val_")).reset_index()
