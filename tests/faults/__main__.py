"""The fault matrix: what may die, on which cluster, in which sync mode; every batch is counted.

python -m tests.faults [--cluster KIND ...] [--fault NAME ...] [--sync MODE ...] [--json FILE]

Exits with 1 if one count is off, or a run did not end as it should.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tos_notebook.stderr import quiet_stderr

from .cases import Case, Outcome, play
from .clusters import Cluster
from .kinds import ALL, FAULTS

MODES = ("asp", "ssp:3", "bsp")
HEAD = f"{'fault':<14}{'cluster':<15}{'sync':<7}{'expected':>18}{'got':>18}{'s':>7}  "


def cases(kinds: list[str], faults: list[str], modes: list[str]) -> list[Case]:
    """Return the cases to play, those that share a Spark next to each other."""
    found = [
        Case(fault, kind, mode)
        for kind in kinds
        for fault in (FAULTS[name] for name in faults)
        if kind in fault.on
        for mode in modes
        if not fault.modes or mode in fault.modes
    ]
    return sorted(found, key=lambda case: (kinds.index(case.cluster), str(case.fault.config)))


def line(outcome: Outcome) -> str:
    """Return an outcome as a row of the table."""
    expected, got = (" / ".join(f"{n:.0f}" for n in pair) for pair in outcome.counts)
    return (
        f"{outcome.fault:<14}{outcome.cluster:<15}{outcome.sync:<7}{expected:>18}{got:>18}"
        f"{outcome.seconds:7.1f}  {'ok' if outcome.exact else outcome.error or 'OFF'}"
    )


def main() -> int:
    """Play the cases; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="The fault matrix.")
    parser.add_argument("--cluster", nargs="+", choices=ALL, default=list(ALL))
    parser.add_argument("--fault", nargs="+", choices=list(FAULTS), default=list(FAULTS))
    parser.add_argument("--sync", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--json", type=Path, help="write the outcomes here, too")
    options = parser.parse_args()
    outcomes: list[Outcome] = []
    print(f"{HEAD}\n{'':<29}{'':<7}{'sum / batches':>18}{'sum / batches':>18}", flush=True)
    for kind in options.cluster:
        with Cluster(kind) as cluster:
            for case in cases([kind], options.fault, options.sync):
                outcomes.append(play(case, cluster))
                print(line(outcomes[-1]), flush=True)
                if options.json is not None:
                    options.json.write_text(json.dumps([asdict(o) for o in outcomes], indent=1))
    off = [outcome for outcome in outcomes if not outcome.exact]
    print(f"{len(outcomes)} cases, {len(off)} off")
    return int(bool(off) or not outcomes)


if __name__ == "__main__":
    with quiet_stderr():
        code = main()
    sys.exit(code)
