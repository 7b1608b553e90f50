"""`read_events`: the curves in a run's event files, as a table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ...cluster.connect import connect
from ...cluster.files import is_local
from ...telemetry.tensorboard import read_scalars, require_tensorboard
from .tensorboard import event_files

if TYPE_CHECKING:
    import pandas as pd


def read_events(uri: str | os.PathLike[str], *, spark: Any = None) -> pd.DataFrame:
    """Return the scalars in a folder of TensorBoard's event files, also while it is written.

    Parameters
    ----------
    uri : str or path-like
        A Hadoop URI or a local path.
    spark : SparkSession or SparkContext, optional
        Reads files that are not local; `connect`'s by default.

    Returns
    -------
    pandas.DataFrame
        One row per value. Columns: tag, such as ``training/loss``; step, samples trained in event
        files of a run; time, seconds since 1970; value.

    Raises
    ------
    ConfigError
        There are no event files, or the package `tensorboard` is not installed.

    Examples
    --------
    >>> curves = tos.read_events("hdfs:///logs/run1")                         # doctest: +SKIP
    >>> curves[curves["tag"] == "training/loss"].plot("step", "value")        # doctest: +SKIP
    """
    require_tensorboard()
    folder = os.fspath(uri)
    sc = None if is_local(folder) else connect(spark, warm_up=False).sparkContext
    return read_scalars(event_files(sc, folder))
