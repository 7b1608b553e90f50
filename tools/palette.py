"""Writes the commands of JupyterLab's palette, as the table of all commands has them.

    python -m tools.palette

The plug-in registers its commands before any kernel could tell it of them.
"""

from __future__ import annotations

import json
from pathlib import Path

from tos_notebook.steering.actions import ACTIONS

FILE = Path(__file__).parents[1] / "labextension/src/lab/actions.json"


def palette() -> str:
    """Return the text of the file: a JSON object for each command with a title."""
    titled = (action for action in ACTIONS.values() if action.title)
    rows = [
        {"name": a.command, "title": a.title, "confirm": a.confirm, "when": a.when} for a in titled
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(palette(), encoding="utf-8")
