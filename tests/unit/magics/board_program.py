"""A kernel that opens TensorBoard on a folder, and lives for as long as its stdin.

    python board_program.py FOLDER

Prints the port and the process of TensorBoard as a line of JSON.
"""

import json
import shlex
import sys

from IPython.core.interactiveshell import InteractiveShell
from tensorboard import manager
from traitlets.config import Config


def main(folder: str) -> None:
    """Open it, say where it is, and wait."""
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.extension_manager.load_extension("tos_notebook")
    shell.run_line_magic("tos_tensorboard", shlex.quote(folder))
    print(json.dumps([(found.port, found.pid) for found in manager.get_all()]), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
