"""What a node's function calls: the feed of rows, paths, and its TensorFlow server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from ..errors import UnsupportedProgram
from ..nodes.context import NodeContext, Places, absolute_path
from ..nodes.feed import DataFeed

__all__ = ["DataFeed", "export_saved_model", "hdfs_path", "release_port", "start_cluster_server"]


def hdfs_path(ctx: Places, path: str) -> str:
    """Return a path with its file system; see `NodeContext.absolute_path`.

    Parameters
    ----------
    ctx : NodeContext
        Whose ``defaultFS`` and ``working_dir`` count.
    path : str
    """
    return absolute_path(ctx, path)


def start_cluster_server(ctx: NodeContext, num_gpus: int = 1, rdma: bool = False) -> Any:
    """Start the node's TensorFlow server; see `NodeContext.start_cluster_server`."""
    return ctx.start_cluster_server(num_gpus, rdma)


def release_port(ctx: NodeContext) -> None:
    """Let other processes have the node's port; see `NodeContext.release_port`."""
    ctx.release_port()


def export_saved_model(
    sess: Any, export_dir: str, tag_set: str, signatures: Mapping[str, Any]
) -> NoReturn:
    """Say what to call instead: TensorFlow 2 saves models itself.

    Raises
    ------
    UnsupportedProgram
        Always.
    """
    NodeContext().export_saved_model(sess, export_dir, tag_set, signatures)


def next_batch(mgr: Any, batch_size: int, qname: str = "input") -> NoReturn:
    """Say what to call instead; raises UnsupportedProgram."""
    raise _replaced("next_batch")


def batch_results(mgr: Any, results: Any, qname: str = "output") -> NoReturn:
    """Say what to call instead; raises UnsupportedProgram."""
    raise _replaced("batch_results")


def terminate(mgr: Any, qname: str = "input") -> NoReturn:
    """Say what to call instead; raises UnsupportedProgram."""
    raise _replaced("terminate")


def _replaced(name: str) -> UnsupportedProgram:
    return UnsupportedProgram(f"TFNode.{name} is a method of DataFeed now: feed.{name}(...).")
