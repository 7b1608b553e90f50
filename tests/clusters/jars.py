"""The jars of Hadoop's servers, of the same version as the client jars of the pyspark wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pyspark

WHEEL = Path(pyspark.__file__).parent
"""Where pip put Spark: its SPARK_HOME."""

POM = Path(__file__).with_name("pom.xml")

CACHE = Path(__file__).parents[2] / ".cluster"

FETCH_TIMEOUT = 600.0
"""Seconds for some 65 MB from Maven Central."""


def hadoop_version() -> str:
    """Return the version of the wheel's Hadoop client."""
    (jar,) = (WHEEL / "jars").glob("hadoop-client-api-*.jar")
    found = re.fullmatch(r"hadoop-client-api-(.+)\.jar", jar.name)
    assert found is not None
    return found[1]


def server_jars() -> Path:
    """Return the folder of the servers' jars, fetched by Maven if they are not there yet."""
    # Another pom needs another folder.
    folder = CACHE / f"hadoop-{hadoop_version()}-{zlib.crc32(POM.read_bytes()):08x}"
    if not folder.is_dir():
        _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise FileNotFoundError(
            "Expected Maven on the PATH to fetch hadoop-client-minicluster, found no mvn. "
            "Install it (apt-get install maven) and call make test-cluster again."
        )
    # Renamed last, so that an interrupted download is done again.
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    settings = [f"-Dhadoop.version={hadoop_version()}", f"-DoutputDirectory={partial}"]
    done = subprocess.run(
        [maven, "--batch-mode", "-q", "-f", POM, "dependency:copy-dependencies", *settings],
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"Maven cannot fetch Hadoop's servers:\n{done.stdout}{done.stderr}")
    partial.rename(folder)
