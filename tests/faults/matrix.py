"""Which cases there are, and how those of one kind of cluster are played."""

from __future__ import annotations

from .cases import Case, Outcome, play
from .clusters import Cluster
from .kinds import FAULTS
from .modes import MODES

HEAD = f"{'fault':<14}{'cluster':<15}{'mode':<15}{'expected':>18}{'got':>18}{'s':>7}{'away':>6}  "


def cases(
    kinds: list[str], faults: list[str], modes: list[str], only: list[str] | None = None
) -> list[Case]:
    """Return the cases to play, those that share a Spark next to each other.

    Parameters
    ----------
    only : list of str, optional
        As ``"FAULT/MODE"``; all of them by default.
    """
    found = [
        Case(fault, kind, MODES[mode])
        for kind in kinds
        for fault in (FAULTS[name] for name in faults)
        if kind in fault.on
        for mode in modes
        if not fault.modes or mode in fault.modes
        if only is None or f"{fault.name}/{mode}" in only
    ]
    return sorted(
        found,
        key=lambda case: (kinds.index(case.cluster), case.mode.shards, str(case.fault.config)),
    )


def line(outcome: Outcome) -> str:
    """Return an outcome as a row of the table."""
    expected, got = (" / ".join(f"{n:.0f}" for n in pair) for pair in outcome.counts)
    away = f"{outcome.away:6.1f}" if outcome.away else " " * 6
    return (
        f"{outcome.fault:<14}{outcome.cluster:<15}{outcome.mode:<15}{expected:>18}{got:>18}"
        f"{outcome.seconds:7.1f}{away}  {'ok' if outcome.exact else outcome.error or 'OFF'}"
    )


def play_all(kind: str, chosen: list[Case]) -> list[Outcome]:
    """Play the cases of one kind of cluster; print each outcome as it comes."""
    outcomes = []
    with Cluster(kind) as cluster:
        for case in chosen:
            outcomes.append(play(case, cluster))
            print(line(outcomes[-1]), flush=True)
    return outcomes
