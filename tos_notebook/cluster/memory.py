"""How much memory a Spark that is started here may take."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says how much a container may take: version 2 and 1 of its control groups."""

LEAST, MOST = 512, 2048
"""MiB of the driver's heap. Spark refuses to start with less than 450; the JVM's own default is too
small for the data sets of a first lesson, on a large machine too."""


def driver_memory() -> str:
    """Return the heap of an embedded Spark: a quarter of what there is, for `spark.driver.memory`.

    The rest is for the notebook's kernel, the workers, and Jupyter itself.
    """
    return f"{min(MOST, max(LEAST, available() // 4 // 2**20))}m"


def available() -> int:
    """Return the bytes of this machine, or of this container if that is less."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in LIMITS:
        # "max" is no number, and none of the files need be there.
        with suppress(OSError, ValueError):
            found = min(found, int(Path(path).read_text(encoding="ascii")))
    return found
