"""Keep a node in a process that outlives the Spark task that has started it."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..errors import WorkerError
from .keeper import Keeper
from .spawn import close_inherited


def detach(keeper: Keeper, registered: Callable[[], object]) -> None:
    """Keep a node in a process that outlives the calling Spark task.

    Parameters
    ----------
    keeper : Keeper
    registered : callable
        Called here when the driver knows the node.

    Raises
    ------
    WorkerError
        It did not come so far.
    """
    jvm = jvm_of(keeper.parent)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code = 1
        try:
            if os.fork() == 0:
                _keep_detached(keeper, writer, jvm)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    if said != b"ok":
        raise WorkerError(said.decode("utf-8", "replace") or "The node's keeper did not begin.")
    registered()


def _keep_detached(keeper: Keeper, writer: int, jvm: int) -> None:
    code, pipe = 1, os.fdopen(writer, "wb", 0)
    try:
        close_inherited({writer})
        _leave_group(keeper, jvm)

        def tell() -> None:
            pipe.write(b"ok")
            pipe.close()

        keeper.run(tell)
        code = 0
    except BaseException as error:
        # Closed once the task has ended: the number may be another file's by now.
        with suppress(OSError, ValueError):
            pipe.write(str(error).encode())
        # What has failed in a node that the driver knows, the driver says. This may be its cell.
        if not (pipe.closed and isinstance(error, WorkerError)):
            sys.stderr.write(f"{error}\n")
    finally:
        os._exit(code)


def _leave_group(keeper: Keeper, jvm: int) -> None:
    """Let this process end with the executor's JVM, not with Spark's Python daemon.

    Spark starts another daemon where it cancels a task that waits for a Python worker, and the
    daemon that ends sends a signal to its whole group.
    """
    with suppress(OSError, AttributeError):
        # Where the system has none, it stays in the group, and ends with the daemon.
        ended = select.poll()
        ended.register(os.pidfd_open(jvm), select.POLLIN)
        os.setpgid(0, 0)
        keeper.orphaned = lambda: bool(ended.poll(0))


def jvm_of(pid: int) -> int:
    """Return the JVM that has started a process, itself or by others; 0 if there is none."""
    with suppress(OSError):
        # In a container, it may be the first process.
        while pid > 0:
            # The name of a process is cut to 15 bytes, of a character perhaps.
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
            fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            if fields["Name"] == "java":
                return pid
            pid = int(fields["PPid"])
    return 0
