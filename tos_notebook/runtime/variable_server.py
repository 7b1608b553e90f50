"""A process with a TensorFlow server that keeps variables. It ends when its parent does."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Serve until standard input is closed; write the port to standard output."""
    from .import_guard import without_keras

    with without_keras():
        import tensorflow as tf

    server = tf.distribute.Server.create_local_server()
    sys.stdout.write(server.target.rpartition(":")[2] + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    # TensorFlow's server has no end of its own.
    os._exit(0)


if __name__ == "__main__":
    main()
