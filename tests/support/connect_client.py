"""A program that tries one thing after the other over Spark Connect, in a process without a JVM."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tos_notebook as tos


def hide_jvm() -> None:
    """Let the rest of PySpark be what pyspark-client is: without what needs a JVM."""
    assert "pyspark" not in sys.modules
    for name in ("py4j", "pyspark.core"):
        # As an import finds what is not installed.
        sys.modules[name] = None  # type: ignore[assignment]


def main(
    tried: Sequence[Callable[[Any, Path], Any]],
    first: Callable[[str], Any] | None = None,
    **afterward: Callable[[], Any],
) -> None:
    """Try all of them, or those that are named, and tell as a line of JSON what they have found.

    The arguments of the process are the server's address, a folder, and names. What fails does not
    keep others from theirs; the process then ends with an error.

    Parameters
    ----------
    tried : sequence of callable
        Each takes a session, and a folder of its own.
    first : callable, optional
        Takes the address, and opens the session; without it, or if others are named, this does.
    **afterward
        What is found once the session has ended.
    """
    hide_jvm()
    address, folder, *names = sys.argv[1:]
    found: dict[str, Any] = {}
    if first is not None and not names:
        found[first.__name__] = first(address)
    spark = tos.connect(address)
    failed = False
    for each in tried:
        if names and each.__name__ not in names:
            continue
        own = Path(folder, each.__name__)
        own.mkdir(parents=True)
        try:
            found[each.__name__] = each(spark, own)
        except Exception:
            failed = True
            traceback.print_exc()
    spark.stop()
    found |= {name: ask() for name, ask in afterward.items()}
    sys.stdout.write(json.dumps(found) + "\n")
    sys.exit(failed)
