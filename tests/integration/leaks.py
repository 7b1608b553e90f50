"""A program that trains on real executors with Spark's UI on, and looks where secrets could show.

    python -m tests.integration.leaks FOLDER

Prints as JSON how much it has looked through, by kind of place, and where a session's secret
was found in any of its spellings.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import sys
import traceback
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

import tos_notebook as tos
from tests.integration.conftest import counter
from tests.support.watching import Watch
from tos_notebook.events import MilestoneCommitted

PAGES = ("jobs/", "stages/", "storage/", "environment/", "executors/")
REST = ("environment", "jobs", "stages", "stages?details=true", "executors", "storage/rdd")
# Not the same again in another order.
_LINK = re.compile(r'href="(/(?:jobs/job|stages/stage|executors/threadDump)/[^".]*)"')


def spellings(secret: bytes) -> dict[str, bytes]:
    """Return the ways in which bytes are written down."""
    raw = bytes(secret)
    bare = repr(raw)[2:-1]
    numbers = ", ".join(str(byte) for byte in raw)
    return {
        "raw": raw,
        "hex": raw.hex().encode(),
        "HEX": raw.hex().upper().encode(),
        "base64": base64.b64encode(raw).rstrip(b"="),
        "base64url": base64.urlsafe_b64encode(raw).rstrip(b"="),
        "repr": bare.encode(),
        "repr in JSON": json.dumps(bare)[1:-1].encode(),
        "latin-1 as UTF-8": raw.decode("latin-1").encode(),
        "list": numbers.encode(),
        "list without blanks": numbers.replace(" ", "").encode(),
        "percent": urllib.parse.quote(raw).encode(),
    }


class Search:
    """Looks for a secret in whatever it is shown."""

    def __init__(self, secret: bytes) -> None:
        self._spellings = spellings(secret)
        self.looked: Counter[str] = Counter()
        self.found: list[str] = []

    def look(self, kind: str, place: str, data: bytes) -> None:
        self.looked[kind] += len(data)
        for name, text in self._spellings.items():
            if text in data:
                self.found.append(f"{name} in {kind} {place}")


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return bytes(answer.read())


def pages(base: str, application: str) -> Iterator[tuple[str, str, bytes]]:
    """Yield what the UI shows and the REST interface tells."""
    links = {f"/{page}" for page in PAGES}
    done: set[str] = set()
    while links - done:
        for link in sorted(links - done):
            done.add(link)
            with suppress(urllib.error.HTTPError):
                text = get(base + link.replace("&amp;", "&"))
                yield "pages", link, text
                links |= set(_LINK.findall(text.decode("utf-8", "replace")))
    for path in REST:
        yield "rest", path, get(f"{base}/api/v1/applications/{application}/{path}")


def processes() -> Iterator[tuple[str, str, bytes]]:
    """Yield command lines and environments of this host's processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            # A process may end meanwhile, or be another user's.
            with suppress(OSError):
                yield name, str(folder), (folder / name).read_bytes()


def own_words(session: Any, task: Any) -> Iterator[tuple[str, str, bytes]]:
    """Yield what this process shows of the session: reprs, formats, a traceback with locals."""
    for thing in (session, task, task.secret, vars(session), *vars(session).values()):
        for text in (repr(thing), str(thing), f"{thing}", ascii(thing)):
            yield "reprs", type(thing).__name__, text.encode("utf-8", "surrogateescape")
    try:
        task._connect.__func__(object(), None)
    except AttributeError as error:
        captured = traceback.TracebackException.from_exception(error, capture_locals=True)
        yield "reprs", "traceback", "".join(captured.format()).encode()


def executor_logs(application: str) -> list[Path]:
    """Return what executors of ``local-cluster`` have written."""
    import pyspark

    home = Path(os.environ.get("SPARK_HOME", Path(pyspark.__file__).parent))
    found = [path for path in (home / "work" / application).rglob("std*") if path.is_file()]
    assert found, f"expected logs of executors in {home}"
    return found


def main() -> None:
    """Train, look, print."""
    folder = Path(sys.argv[1])
    events = folder / "events"
    events.mkdir()
    log = StringIO()
    logging.basicConfig(stream=log, level=logging.DEBUG)
    logging.getLogger("py4j").setLevel(logging.INFO)
    said = StringIO()
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.local.dir": str(folder),
    }
    builder = SparkSession.builder.master("local-cluster[1,2,1024]").appName("leaks")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    sc = spark.sparkContext
    watch = Watch()
    with redirect_stdout(said), redirect_stderr(said):
        session = tos.TrainingSession(spark, counter(), combiner="downpour", batch_size=5)
        run = session.start((np.arange(1000.0),), epochs=100_000, sinks=[watch])
        # What is looked through is much: meanwhile the workers leave the cores to Spark's pages.
        run.chaos(tos.chaos.Pause(0.05, any=2))
        watch.wait_for(MilestoneCommitted, 20, timeout=180)
        task = run.parts.task
        search = Search(task.secret)
        # That it would be found, where it is.
        search.look("control", "closure", cloudpickle.dumps(task))
        assert search.found, "the search finds nothing where the secret is"
        search.found.clear()
        application = sc.applicationId
        base = sc.uiWebUrl.rstrip("/")
        for kind, place, data in (
            *pages(base, application),
            *processes(),
            *own_words(session, task),
        ):
            search.look(kind, place, data)
        run.stop()
        session.close()
        said.write(f"{run} {session}")
    spark.stop()
    for path in events.rglob("*"):
        if path.is_file():
            search.look("event log", path.name, path.read_bytes())
    for path in executor_logs(application):
        search.look("logs", str(path), path.read_bytes())
    search.look("logs", "driver", log.getvalue().encode("utf-8", "replace"))
    search.look("logs", "output", said.getvalue().encode("utf-8", "replace"))
    sys.stdout.write(json.dumps({"looked": search.looked, "found": search.found}) + "\n")


if __name__ == "__main__":
    main()
