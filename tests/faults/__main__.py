"""The fault matrix: what may die, on which cluster, in which mode; every batch is counted.

python -m tests.faults [--cluster KIND ...] [--fault NAME ...] [--mode MODE ...]
                       [--case FAULT/MODE ...] [--json FILE]

Where all workers make each step together, the parameters have the bits of a run to which nothing
happens, too.

Exits with 1 if one count is off, or a run did not end as it should.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from tos_notebook.common.console import quiet_stderr

from .cases import Outcome
from .kinds import ALL, FAULTS
from .matrix import HEAD, cases, play_all
from .modes import MODES


def main() -> int:
    """Play the cases; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="The fault matrix.")
    parser.add_argument("--cluster", nargs="+", choices=ALL, default=list(ALL))
    parser.add_argument("--fault", nargs="+", choices=list(FAULTS), default=list(FAULTS))
    parser.add_argument("--mode", nargs="+", choices=list(MODES), default=list(MODES))
    parser.add_argument("--case", nargs="+", metavar="FAULT/MODE", help="of these play only some")
    parser.add_argument("--json", type=Path, help="write the outcomes here, too")
    options = parser.parse_args()
    print(f"{HEAD}\n{'':<29}{'':<15}{'sum / batches':>18}{'sum / batches':>18}", flush=True)
    outcomes: list[Outcome] = []
    for kind in options.cluster:
        # A JVM reads the configuration of YARN once, so each kind has a process of its own.
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            chosen = cases([kind], options.fault, options.mode, options.case)
            outcomes += process.submit(play_all, kind, chosen).result()
        if options.json is not None:
            options.json.write_text(json.dumps([asdict(o) for o in outcomes], indent=1))
    off = [outcome for outcome in outcomes if not outcome.exact]
    print(f"{len(outcomes)} cases, {len(off)} off")
    return int(bool(off) or not outcomes)


if __name__ == "__main__":
    with quiet_stderr():
        code = main()
    sys.exit(code)
