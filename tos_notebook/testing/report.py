"""What checks have found, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Finding(NamedTuple):
    """The outcome of one check."""

    check: str
    """What must hold."""
    outcome: str
    """``"ok"``, ``"FAILED"`` or ``"skipped"``."""
    detail: str = ""
    """Why it was skipped or failed."""

    def __str__(self) -> str:
        return f"{self.outcome:<8} {self.check}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True)
class CheckReport:
    """What was found of a combiner or a strategy; prints as a table."""

    subject: str
    """What was checked, as it prints."""
    findings: tuple[Finding, ...]
    """In the order of the checks."""

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(finding.outcome != "FAILED" for finding in self.findings)

    def __repr__(self) -> str:
        verdict = "all checks hold" if self.passed else "a check does not hold"
        return "\n".join([f"{self.subject}: {verdict}", *(f"  {f}" for f in self.findings)])
