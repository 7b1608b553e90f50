"""Finding Java, before Spark fails without it in many lines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ..errors import JavaMissing

MINIMUM = 17
"""Spark 4 runs on Java 17 and later."""

TIMEOUT = 20.0
"""Seconds for ``java -version``, which takes 0.1 s."""

ADVICE = (
    f"Install Java {MINIMUM} or later (Debian and Ubuntu: apt install openjdk-17-jre-headless; "
    "conda: openjdk=17; macOS: brew install openjdk@17) and set JAVA_HOME to it."
)


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
        It is missing, does not run, or is older than `MINIMUM`.
    """
    java = _find(environ)
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=TIMEOUT, check=False
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
