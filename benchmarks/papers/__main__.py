"""Published results beside ours, on real MNIST.

python -m benchmarks.papers [--quick] [--json FILE] [NAME ...]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from time import perf_counter

from tos_notebook.common.console import quiet_stderr
from tos_notebook.errors import TosError

from ..lib.harness import Row, machine
from .report import Options, say, table

NAMES = ("theory", "staleness", "fedavg", "hermans", "local_sgd", "mllib")


def measure(name: str, options: Options) -> list[Row]:
    """Return one program's rows."""
    began = perf_counter()
    rows = list(import_module(f"{__package__}.{name}").measure(options))
    say(f"{name}: {perf_counter() - began:.0f} s")
    return rows


def main() -> None:
    """Run what is asked for, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="fewer and shorter measurements")
    parser.add_argument("--seeds", type=int, default=2, metavar="N", help="how many seeds")
    parser.add_argument("--epochs", type=int, default=40, metavar="N", help="of `hermans`")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here too")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in NAMES]:
        parser.error(f"expected names among {', '.join(NAMES)}; got {', '.join(unknown)}")
    options = Options(given.quick, 1 if given.quick else given.seeds, given.epochs)
    try:
        with quiet_stderr():
            rows = [row for name in given.names or NAMES for row in measure(name, options)]
    except TosError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    print(f"{machine()}\n\n{table(rows)}")
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")


if __name__ == "__main__":
    main()
