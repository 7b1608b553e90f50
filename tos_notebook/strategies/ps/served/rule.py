"""Which combiners merge rows of served tables."""

from __future__ import annotations

from ....combiners.base import Combiner, StatefulCombiner, merges_rows
from ....errors import ConfigError
from ....layout import Layout


def require_by_row(layout: Layout, combiner: Combiner) -> None:
    """Refuse a combiner that cannot merge rows of served tables by themselves.

    What an optimizer keeps of a row is the worker's business, and comes with the row. A rule with
    state of its own would need it of rows that no worker has seen yet.

    Raises
    ------
    ConfigError
    """
    fits = merges_rows(combiner) and not isinstance(combiner, StatefulCombiner)
    if layout.served and not (fits and combiner.pushes == "delta"):
        raise ConfigError(
            f"combiner: expected one that merges rows of ServedEmbedding "
            f"{layout.served[0].name!r} and keeps nothing between pushes, such as downpour, adag "
            f"or dynsgd; got {combiner.name}. Adam's moments and the like are kept with each row: "
            "choose them as the model's optimizer."
        )
