"""Start the process of a node: a fork where that is safe, else a new Python.

A process that runs threads of TensorFlow must not fork: its child would wait for threads that it
does not have. A Python worker that has only imported TensorFlow runs none, and its fork is a node
at once. A new Python imports TensorFlow again, which takes seconds.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

from .body import Body, flush

_SET_PDEATHSIG = 1


class Process(NamedTuple):
    """A node's process, and the pipes to it.

    Attributes
    ----------
    pid : int
    orders : int
        Descriptor to write orders to.
    news, output : int
        Descriptors to read from: what it tells, and what it prints.
    """

    pid: int
    orders: int
    news: int
    output: int


def start(body: Body, fork: bool) -> Process:
    """Start a node's process.

    Parameters
    ----------
    body : Body
        What is to run in it. The calling thread must live as long as the process.
    fork : bool
        Whether this process may fork; see `may_fork`.
    """
    (orders, to_orders), (from_news, news), (from_output, output) = os.pipe(), os.pipe(), os.pipe()
    begin = _fork if fork else _spawn
    try:
        pid = begin(body, orders, news, output)
    except BaseException:
        for descriptor in (to_orders, from_news, from_output):
            os.close(descriptor)
        raise
    finally:
        for descriptor in (orders, news, output):
            os.close(descriptor)
    return Process(pid, to_orders, from_news, from_output)


def may_fork() -> bool:
    """Return whether this process may fork: no thread of TensorFlow runs in it.

    NumPy's threads do not count, since it starts them again in the fork.
    """
    if "tensorflow" not in sys.modules:
        return True
    try:
        return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208
    except OSError:
        return False


def _fork(body: Body, orders: int, news: int, output: int) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        die_with(parent)
        _keep_only(orders, news, body.port.fileno(), output)
        _run(body, orders, news)
        code = 0
    except BaseException:
        # Into the pipe: its keeper tells the driver what it printed.
        traceback.print_exc()
    finally:
        flush()
        os._exit(code)


def _keep_only(orders: int, news: int, port: int, output: int) -> None:
    """Print into the pipe, and close what else the parent had open."""
    for stream in (1, 2):
        os.dup2(output, stream)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    close_inherited({orders, news, port})


def close_inherited(kept: set[int]) -> None:
    """Close the pipes and sockets of the process that this one was forked from, as to Spark.

    Parameters
    ----------
    kept : set of int
        Descriptors to leave open, beside the standard streams.
    """
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        descriptor = int(name)
        if descriptor > 2 and descriptor not in kept and _is_pipe_or_socket(descriptor):
            os.close(descriptor)


def _is_pipe_or_socket(descriptor: int) -> bool:
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink()).startswith(("pipe:", "socket:"))
    except OSError:
        return False


def _run(body: Body, orders: int, news: int) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A Python worker of Spark has its own streams, without a descriptor.
    sys.stdout, sys.stderr = (
        os.fdopen(stream, "w", 1, encoding="utf-8", errors="replace", closefd=False)
        for stream in (1, 2)
    )
    body.run(os.fdopen(orders, "rb"), os.fdopen(news, "wb"))


def die_with(parent: int) -> None:
    """Let the kernel end this process when the thread of its parent that has started it ends."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _spawn(body: Body, orders: int, news: int, output: int) -> int:
    from pyspark import cloudpickle

    port = body.port.fileno()
    fields = cloudpickle.dumps((body.plan, body.number, body.main, body.args, body.host))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, *map(str, (os.getpid(), orders, news, port))],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        pass_fds=(orders, news, port),
        env=environment,
        # An interrupt of the notebook is not meant for it.
        start_new_session=True,
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(fields)
    # Its keeper waits for it: subprocess, which knows of an end now, does not.
    process.returncode = 0
    return process.pid


def main(arguments: Sequence[str]) -> NoReturn:
    """Be a node in a new Python: its function comes from its parent, by a pipe of theirs."""
    parent, orders, news, port = map(int, arguments)
    die_with(parent)
    plan, number, function, args, host = pickle.load(sys.stdin.buffer)
    held = socket.socket(fileno=port)
    _run(Body(plan, number, function, args, host, held), orders, news)
    flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
