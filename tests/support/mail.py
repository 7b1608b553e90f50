"""The temporary views of a Spark Connect session, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Views:
    """What a `Mailbox` uses of a session.

    Attributes
    ----------
    stored : dict of str
        Rows by the names of views.
    fails : Exception or None
        What each query raises.
    """

    def __init__(self) -> None:
        self.stored: dict[str, Sequence[tuple[Any, ...]]] = {}
        self.fails: Exception | None = None
        self.catalog = self

    def createDataFrame(self, rows: Sequence[tuple[Any, ...]], schema: str) -> _Frame:  # noqa: N802
        """See ``SparkSession.createDataFrame``."""
        return _Frame(self, [tuple(map(bytes, row)) for row in rows])

    def table(self, name: str) -> _Frame:
        """See ``SparkSession.table``; an absent one is found by what collects it."""
        return _Frame(self, None, name)

    def dropTempView(self, name: str) -> bool:  # noqa: N802
        """See ``Catalog.dropTempView``."""
        return self.stored.pop(name, None) is not None


class _Frame:
    def __init__(
        self, views: Views, rows: Sequence[tuple[Any, ...]] | None, name: str = ""
    ) -> None:
        self._views, self._rows, self._name = views, rows, name

    def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802
        assert self._rows is not None
        self._views.stored[name] = self._rows

    def limit(self, count: int) -> _Frame:
        return self

    def collect(self) -> Sequence[tuple[Any, ...]]:
        if self._views.fails is not None:
            raise self._views.fails
        if self._name not in self._views.stored:
            raise ValueError(f"[TABLE_OR_VIEW_NOT_FOUND] {self._name}")
        return self._views.stored[self._name]
