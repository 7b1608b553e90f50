"""What runs in a node of a cluster, for tests of more than one kind of cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def port_keeper() -> Callable[[Any, Any], None]:
    """Return a node's ``main`` that says whether its port is kept until TensorFlow serves there.

    It is a function in a function: so it is sent as it stands, to executors without this module.
    """

    def main(args: Any, ctx: Any) -> None:
        import socket
        import sys

        port = int(ctx.cluster_spec["worker"][ctx.task_index].rpartition(":")[2])
        with socket.socket() as other:
            try:
                other.bind(("", port))
            except OSError:
                sys.stdout.write("kept\n")
        ctx.start_cluster_server()
        with socket.create_connection(("127.0.0.1", port)):
            sys.stdout.write("served\n")

    return main
