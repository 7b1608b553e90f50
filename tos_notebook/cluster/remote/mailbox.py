"""Letters between two clients of one Spark Connect session: no socket, and no slot of Spark."""

from __future__ import annotations

from typing import Any

from ...errors import RemoteProtocolError

LARGEST = 768 << 10
"""Bytes of a letter. Spark stores larger rows of a client until the session ends."""

_COLUMN = "value"


class Mailbox:
    """Holds a letter of each name, the latest one, as a temporary view of one row.

    The server answers a query of such a view by itself, so a letter arrives while tasks hold all
    slots. Only clients of the same session see it. What is in a letter is data, and never run.

    Parameters
    ----------
    session : pyspark.sql.connect.session.SparkSession
    prefix : str
        Begins the names of the views; letters and digits.
    """

    def __init__(self, session: Any, prefix: str) -> None:
        self._session = session
        self._prefix = prefix

    def put(self, name: str, content: bytes) -> None:
        """Replace a letter.

        Raises
        ------
        RemoteProtocolError
            It has more bytes than `LARGEST`.
        """
        _check(name, len(content))
        frame = self._session.createDataFrame([(bytearray(content),)], f"{_COLUMN} binary")
        frame.createOrReplaceTempView(self._view(name))

    def get(self, name: str) -> bytes | None:
        """Return a letter; None if there is none.

        Raises
        ------
        RemoteProtocolError
            Something else has that name.
        """
        try:
            rows = self._session.table(self._view(name)).limit(2).collect()
        except Exception as error:
            if "TABLE_OR_VIEW_NOT_FOUND" in str(error):
                return None
            raise
        found = rows[0][0] if len(rows) == 1 else None
        if not isinstance(found, bytes | bytearray):
            raise RemoteProtocolError(f"Expected a letter {name!r} of one row of bytes.")
        _check(name, len(found))
        return bytes(found)

    def drop(self, name: str) -> bool:
        """Forget a letter; return whether there was one."""
        return bool(self._session.catalog.dropTempView(self._view(name)))

    def _view(self, name: str) -> str:
        return f"{self._prefix}_{name}"


def _check(name: str, size: int) -> None:
    if size > LARGEST:
        raise RemoteProtocolError(
            f"Expected at most {LARGEST:,} bytes in the letter {name!r}, got {size:,}."
        )
