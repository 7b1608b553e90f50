"""Which cell is being executed, as the front end that asked for it says."""

from __future__ import annotations

from typing import Any


def cell_id(shell: Any) -> str | None:
    """Return the id of the cell whose execution this is; None where a front end names none.

    Parameters
    ----------
    shell : InteractiveShell or None
    """
    header = getattr(shell, "parent_header", None) or {}
    found = header.get("metadata", {}).get("cellId")
    return found if isinstance(found, str) and found else None
