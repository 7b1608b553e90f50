"""Who reads what is written, and what of it: no greetings of TensorFlow and Spark."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

NOISE = re.compile(
    rb"WARNING: (All log messages before absl|Using incubator modules)|WARNING:absl:"
    rb"|[IW]\d{4} \d\d:\d\d:|E\d{4} .*(cuda|CUDA)|To enable the following instructions"
    rb"|\d{4}-\d\d-\d\d [\d:.]+: [IW] "
    rb"|\d\d/\d\d/\d\d [\d:]+ (INFO|WARN) |Using Spark's default log4j"
    rb"|Setting (default|Spark) log level|To adjust logging level"
)
"""How lines begin with which TensorFlow, absl and Spark greet; no setting silences them all."""

DRAIN_TIMEOUT = 5.0
"""Seconds that leaving the context waits for what was written inside to come through."""

_MARK = b"\0end of the filtered part\n"


def is_noninteractive() -> bool:
    """Whether cells run in a batch job: papermill, nbval, continuous integration."""
    return os.environ.get("TOS_NONINTERACTIVE", "0") not in ("", "0")


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Keep what matches `NOISE` off standard error while the context is open.

    C++, the JVM and its children write to file descriptor 2, so that is where to filter.
    Everything else goes through. Processes that are started inside stay filtered for as long as
    this one lives.
    """
    sys.stderr.flush()
    stderr = os.dup(2)
    reader, writer = os.pipe()
    os.dup2(writer, 2)
    os.close(writer)
    caught_up = threading.Event()
    lines, target = os.fdopen(reader, "rb"), os.fdopen(os.dup(stderr), "wb", buffering=0)
    threading.Thread(
        target=_forward, args=(lines, target, caught_up), name="stderr", daemon=True
    ).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.write(2, _MARK)
        caught_up.wait(DRAIN_TIMEOUT)
        os.dup2(stderr, 2)
        os.close(stderr)


def _forward(lines: BinaryIO, target: BinaryIO, caught_up: threading.Event) -> None:
    with lines, target:
        for line in lines:
            if line.endswith(_MARK):
                target.write(line.removesuffix(_MARK))
                caught_up.set()
            elif not NOISE.match(line):
                target.write(line)
