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

from .lib.harness import Row, print_table, read_rows

ROOMS = {
    "throughput": (
        *("training", "fit", "digits", "codecs", "tls", "merging", "checkpoints"),
        *("tensorboard", "observers", "dataframes", "strings", "inference", "streaming", "reduce"),
        *("sharing", "allreduce", "mllib", "feeding", "embeddings", "connect"),
    ),
    "latency": ("exchange", "pushes", "control", "epochs", "failures"),
    "scale": ("load", "workers", "memory", "stragglers", "shards", "predictions", "served"),
    "accuracy": ("accuracy", "sorted_data", "optimizer_state"),
    "neighbours": ("parameter_servers", "elephas", "distributor"),
    "start_up": ("start", "again", "compilers", "course", "fresh"),
    "front_end": ("view", "notebook", "browser", "panel"),
}
"""The programs of each package, in the order in which they run."""

MODULES = {name: f"benchmarks.{room}.{name}" for room, names in ROOMS.items() for name in names}


def run_one(name: str, quick: bool, folder: Path) -> list[Row] | None:
    """Return a benchmark's rows; None if it failed, having said why on standard error."""
    target = folder / f"{name}.json"
    command = [sys.executable, "-m", MODULES[name], "--json", str(target)]
    began = perf_counter()
    print(f"{name} ... ", end="", flush=True)
    done = subprocess.run([*command, *(["--quick"] if quick else [])], check=False)
    print(f"{perf_counter() - began:.0f} s" + (", failed" if done.returncode else ""), flush=True)
    return None if done.returncode else read_rows(target)


def main() -> int:
    """Run them one after the other; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="All benchmarks.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter measurements")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODULES))
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in MODULES]
    if unknown:
        parser.error(f"expected names among {', '.join(MODULES)}; got {', '.join(unknown)}")
    with tempfile.TemporaryDirectory() as folder:
        found = [run_one(n, options.quick, Path(folder)) for n in options.names or MODULES]
    print_table(row for rows in found for row in rows or [])
    return int(None in found)


if __name__ == "__main__":
    sys.exit(main())
