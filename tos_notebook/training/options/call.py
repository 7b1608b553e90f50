"""What a call that trains is told besides: what rows and classes count, and what it waits for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from ...blocks.naming import Names
from ...common.checks import boolean, class_weights
from ...errors import ConfigError
from .option import in_range, option

EVERY = "30s"
"""How often a run is saved, if only the place for that is given."""


def _folder(name: str, value: Any) -> str:
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise ConfigError(f"{name}: expected a folder's URI or path, got {value!r}.")
    return str(os.fspath(value))


def _verbose(name: str, value: Any) -> bool:
    # Keras writes it as 0, 1, 2 or "auto".
    return value == "auto" or boolean(name, bool(value) if value in (0, 1, 2) else value)


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """What a call is told besides; see `TrainingSession.start`."""

    features: str | Names | Mapping[str, str] | None = option(
        None,
        "DataFrame: columns that are fed, one for each input of the model",
        """
        Columns of data, and of validation data, that are a DataFrame of Spark or pandas, as
        `tos_notebook.columns` takes them. Without, those that the model's inputs are named as;
        else Spark ML's ``features``.
        """,
        takes="str, sequence of str, or mapping of str to str, optional",
    )
    label: str | Names | Mapping[str, str] | None = option(
        None,
        "DataFrame: the column of the labels",
        """
        The same for labels. Without, those that the model's labels are named as; else Spark ML's
        ``label``.
        """,
        takes="str, sequence of str, or mapping of str to str, optional",
    )
    class_weight: Mapping[int, float] | None = option(
        None,
        "how much a row of each class counts in the loss, such as {0: 1.0, 1: 5.0}",
        """
        How much a row of each class counts in the loss, as for Keras's ``fit``; those that are not
        named count 1. It needs a Keras model with one output. For rows that count differently,
        capture the model with ``weights=True``.
        """,
        takes="mapping of int to float, optional",
        check=class_weights,
        kept="which its program was saved with",
    )
    checkpoint_dir: str | None = option(
        None,
        "where the run is saved while it trains: a Hadoop URI, or a local path",
        """
        Where checkpoints go, and programs and initial parameters: a Hadoop URI, or a path on
        Spark's default file system. They are written every 30 s, unless `checkpoint_every` says
        otherwise.
        """,
        check=_folder,
        kept="where further checkpoints go",
    )
    wait: bool = option(
        False,
        "block until the run has ended",
        """
        Whether to return when the run has ended, and not at once. An interrupt stops the run and
        keeps the weights.
        """,
        check=boolean,
    )
    verbose: bool = option(
        False,
        "show progress",
        """
        Whether to show progress: `fit` does so by the live view in a notebook, and all else by a
        line of text. It may also be Keras's 0, 1, 2 or ``"auto"``.
        """,
        check=_verbose,
    )

    def checked(self) -> Self:
        """Return them as a call uses them.

        Raises
        ------
        ConfigError
            One is out of range.
        """
        return replace(self, **in_range(CallOptions, self))
