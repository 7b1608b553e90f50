"""How large the JVM of an embedded Spark may be, and how it compiles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

GROUPS = Path("/proc/self/cgroup")
"""Where Linux says in which control groups this process is."""

LIMITS = {
    "": ("/sys/fs/cgroup", "memory.max"),
    "memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
}
"""Where it says how much they may take: version 2 and 1 of control groups."""

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
    """Return the bytes of this machine, or of this container or control group if that is less."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _limits():
        # "max" is no number, and none of the files need be there.
        with suppress(OSError, ValueError):
            found = min(found, int(path.read_text(encoding="ascii")))
    return found


def _limits() -> Iterator[Path]:
    """Yield the files with the limits of this process's groups, and of those that they are in.

    A container sees its own group as the root; a Hub without containers has a group per user.
    """
    # Even where the groups are not told, that of the container may be.
    lines = ["0::/", "0:memory:/"]
    with suppress(OSError):
        lines = GROUPS.read_text(encoding="ascii").splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller in set(controllers.split(",")) & set(LIMITS):
            root, name = LIMITS[controller]
            inside = Path(path.lstrip("/"))
            yield from (Path(root, group, name) for group in (inside, *inside.parents))
