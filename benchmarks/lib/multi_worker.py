"""TensorFlow's own synchronous strategy between processes of this machine, by its ring."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from contextlib import closing
from typing import Any


def free_port() -> int:
    """Return a port on which nothing listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as sock:
        port: int = sock.getsockname()[1]
        return port


def multi_worker(rank: int, ports: Sequence[int]) -> Any:
    """Return the `MultiWorkerMirroredStrategy` of one process; it waits for the others."""
    workers = [f"127.0.0.1:{port}" for port in ports]
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
    )
    import tensorflow as tf

    how = tf.distribute.experimental
    options = how.CommunicationOptions(implementation=how.CommunicationImplementation.RING)
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
