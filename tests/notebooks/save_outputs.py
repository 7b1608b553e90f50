"""Execute the notebooks and save their outputs: python -m tests.notebooks.save_outputs [NAME ...]

What says nothing to a reader, or names a place on this machine, is left out: the time of each cell,
the state of widgets, standard error, and TensorFlow's log.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"

LOG = re.compile(r"^(?:INFO|WARNING):tensorflow:.*\n+", re.MULTILINE)

ENVIRONMENT = {"TOS_NONINTERACTIVE": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "TOS_MNIST_DIR": ""}


class Client(NotebookClient):  # type: ignore[misc]
    """Also lets one cell's picture change while another runs, as front ends do."""

    async def _async_poll_output_msg(self, parent_msg_id: str, cell: Any, cell_index: int) -> None:
        channel = self.kc.iopub_channel
        get_msg = channel.get_msg

        async def adopted(**options: Any) -> Any:
            message = await get_msg(**options)
            if message["header"]["msg_type"] == "update_display_data":
                message["parent_header"]["msg_id"] = parent_msg_id
            return message

        channel.get_msg = adopted
        try:
            await super()._async_poll_output_msg(parent_msg_id, cell, cell_index)
        finally:
            channel.get_msg = get_msg


def execute(path: Path) -> Any:
    """Return the notebook with fresh outputs."""
    notebook = nbformat.read(path, as_version=4)
    client = Client(
        notebook,
        timeout=300,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute(env=os.environ | ENVIRONMENT)
    # An object whose picture fails shows an error, though its cell went well.
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        if output.output_type == "error":
            raise RuntimeError(f"{path.name} is not saved: {output.ename}: {output.evalue}")
    return tidy(notebook)


def code_hash(notebook: Any) -> str:
    """Return a digest of the code cells, which tells whether the outputs are theirs."""
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()


def tidy(notebook: Any) -> Any:
    """Leave out what says nothing to a reader, and note which code made the outputs."""
    notebook.metadata.language_info = {"name": "python"}
    notebook.metadata.code_sha256 = code_hash(notebook)
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if tell(output)]
    return notebook


def tell(output: Any) -> bool:
    """Take TensorFlow's log out of a stream, and return whether anything is left to show."""
    if output.output_type != "stream":
        return True
    output.text = LOG.sub("", output.text)
    return output.name == "stdout" and bool(output.text.strip())


def main(names: list[str]) -> None:
    """Execute the notebooks whose name contains one of `names`; all by default."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or any(name in path.name for name in names):
            nbformat.write(execute(path), path)


if __name__ == "__main__":
    main(sys.argv[1:])
