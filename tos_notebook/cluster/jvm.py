"""How large the JVM of an embedded Spark may be, and how it compiles."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says how much a container may take: version 2 and 1 of its control groups."""

LEAST, MOST = 512, 2048
"""MiB of the driver's heap. Spark refuses to start with less than 450; the JVM's own default is too
small for the data sets of a first lesson, on a large machine too."""

SMALL_HEAP = 1024
"""MiB up to which the collector that takes least memory itself is the best one."""

FEW_CORES = 4


def settings() -> dict[str, str]:
    """Return the settings of the driver's JVM for this machine, or this container.

    The heap is a quarter of the memory; the rest is for the notebook's kernel, the workers, and
    Jupyter itself.
    """
    heap = min(MOST, max(LEAST, available() // 4 // 2**20))
    options = []
    if len(os.sched_getaffinity(0)) <= FEW_CORES:
        # The second compiler takes several seconds of a core while Spark starts, and half a second
        # in many a job, from the cores that train; what the JVM does here repays little of it.
        options.append("-XX:TieredStopAtLevel=1")
    if heap <= SMALL_HEAP:
        options.append("-XX:+UseSerialGC")
    found = {"spark.driver.memory": f"{heap}m"}
    return found | ({"spark.driver.extraJavaOptions": " ".join(options)} if options else {})


def available() -> int:
    """Return the bytes of this machine, or of this container if that is less."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in LIMITS:
        # "max" is no number, and none of the files need be there.
        with suppress(OSError, ValueError):
            found = min(found, int(Path(path).read_text(encoding="ascii")))
    return found
