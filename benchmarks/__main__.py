"""All benchmarks, each in a process of its own, in one table.

python -m benchmarks [--quick] [NAME ...]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from .harness import Row, print_table, read_rows

NAMES = (
    "training",
    "fit",
    "digits",
    "exchange",
    "tls",
    "codecs",
    "stragglers",
    "merging",
    "checkpoints",
    "tensorboard",
    "beside",
    "accuracy",
    "epochs",
    "dataframes",
    "sorted_data",
    "inference",
    "streaming",
    "optimizer_state",
    "compilers",
    "start",
    "control",
    "failures",
    "memory",
    "view",
    "notebook",
    "course",
    "browser",
    "panel",
    "load",
    "fresh",
)


def run_one(name: str, quick: bool, folder: Path) -> list[Row] | None:
    """Return a benchmark's rows; None if it failed, having said why on standard error."""
    target = folder / f"{name}.json"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(target)]
    began = perf_counter()
    print(f"{name} ... ", end="", flush=True)
    done = subprocess.run([*command, *(["--quick"] if quick else [])], check=False)
    print(f"{perf_counter() - began:.0f} s" + (", failed" if done.returncode else ""), flush=True)
    return None if done.returncode else read_rows(target)


def main() -> int:
    """Run them one after the other; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="All benchmarks.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter measurements")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"expected names among {', '.join(NAMES)}; got {', '.join(unknown)}")
    with tempfile.TemporaryDirectory() as folder:
        found = [run_one(n, options.quick, Path(folder)) for n in options.names or NAMES]
    print_table(row for rows in found for row in rows or [])
    return int(None in found)


if __name__ == "__main__":
    sys.exit(main())
