"""Java: where it is, how large the driver's may be, and that it leaves nothing behind."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import JavaMissing

if TYPE_CHECKING:
    from pyspark import SparkContext

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

MINIMUM = 17
"""Spark 4 runs on Java 17 and later."""

JAVA_TIMEOUT = 20.0
"""Seconds for ``java -version``, which takes 0.1 s."""

ADVICE = (
    f"Install Java {MINIMUM} or later (Debian and Ubuntu: apt install openjdk-17-jre-headless; "
    "conda: openjdk=17; macOS: brew install openjdk@17) and set JAVA_HOME to it."
)

LOCAL_IP = "SPARK_LOCAL_IP"
"""The environment's variable by which Spark knows its host's address."""

LATE_COMPILER = (
    "-XX:Tier4InvocationThreshold=100000",
    "-XX:Tier4MinInvocationThreshold=12000",
    "-XX:Tier4CompileThreshold=300000",
    "-XX:Tier4BackEdgeThreshold=800000",
)
"""Twenty times the JVM's own. By those its second compiler takes seconds of a core while Spark
starts, and half a second in many a job, from the cores that train. Without it a query over many
rows takes twenty times as long."""


def settings() -> dict[str, str]:
    """Return the settings of the driver's JVM for this machine, or this container.

    The heap is a quarter of the memory; the rest is for the notebook's kernel, the workers, and
    Jupyter itself.
    """
    heap = min(MOST, max(LEAST, available() // 4 // 2**20))
    options: list[str] = []
    if len(os.sched_getaffinity(0)) <= FEW_CORES:
        options += LATE_COMPILER
    if heap <= SMALL_HEAP:
        options.append("-XX:+UseSerialGC")
        # Else a thread keeps, outside of the heap, a copy of the largest array that it has sent:
        # with all of MNIST 100 MB in all.
        options.append("-Djdk.nio.maxCachedBufferSize=1048576")
    found = {"spark.driver.memory": f"{heap}m"}
    return found | ({"spark.driver.extraJavaOptions": " ".join(options)} if options else {})


@contextmanager
def located() -> Iterator[None]:
    """Tell a JVM that starts inside where this host is, if the host's own name does not resolve.

    Spark asks for that address first, even where its settings have another one.
    """
    if LOCAL_IP in os.environ or _resolves(socket.gethostname()):
        yield
        return
    os.environ[LOCAL_IP] = "127.0.0.1"
    try:
        yield
    finally:
        del os.environ[LOCAL_IP]


def _resolves(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True


def reap(sc: SparkContext) -> None:
    """See to it that the system forgets the JVM as soon as it has ended.

    A kernel that is told to end stops its children first, and takes one that was not waited for
    as running still: half a minute. Jupyter kills it long before, and what it would have removed
    at its end stays on the disk.
    """
    process = getattr(sc._gateway, "proc", None)
    if isinstance(process, subprocess.Popen):
        _wait_for(process)


@cache
def _wait_for(process: subprocess.Popen[bytes]) -> threading.Thread:
    thread = threading.Thread(target=process.wait, name="wait-for-jvm", daemon=True)
    thread.start()
    return thread


def available() -> int:
    """Return the bytes of this machine, or of this container or control group if that is less."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _limits():
        # "max" is not a number, and none of the files need be there.
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


def check_java(environ: Mapping[str, str] = os.environ) -> int:
    """Return the version of the Java that Spark would start.

    Parameters
    ----------
    environ : mapping of str
        Where JAVA_HOME and PATH are looked up.

    Returns
    -------
    int
        The feature version, such as 17.

    Raises
    ------
    JavaMissing
        There is none, it does not run, or it is older than `MINIMUM`.
    """
    java = _find(environ)
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissing(f"{java} does not run ({error}). {ADVICE}") from error
    text = done.stderr + done.stdout
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    if found is None:
        raise JavaMissing(f"{java} does not tell its version; it says {text[:200]!r}. {ADVICE}")
    version = int(found[1])
    if version < MINIMUM:
        raise JavaMissing(f"{java} is Java {version}; Spark needs {MINIMUM} or later. {ADVICE}")
    return version


def _find(environ: Mapping[str, str]) -> str:
    home, path = environ.get("JAVA_HOME"), environ.get("PATH", "")
    if home:
        java = Path(home, "bin", "java")
        if os.access(java, os.X_OK):
            return str(java)
        raise JavaMissing(f"JAVA_HOME is {home}, but there is no {java} to run. {ADVICE}")
    found = shutil.which("java", path=path)
    if found is None:
        raise JavaMissing(
            f"No Java found: JAVA_HOME is not set, and no java is on the PATH ({path}). {ADVICE}"
        )
    return found
