"""A pytest plug-in: a test that is skipped without saying what it needs fails the session.

A skip is accepted if its reason starts with ``needs``, as in ``needs a browser``; the reasons are
printed at the end of the session (``-rs``). Anything else, a missing import above all, would let
a broken environment pass as a green one.

With ``CI`` in the environment all is installed that can be: then only what a machine may lack for
good is accepted. An expected failure has to say why in either case.
"""

from __future__ import annotations

import os

import pytest

ACCEPTED = ("needs ",)

ACCEPTED_IN_CI = ("needs a GPU", "needs IPv6", "needs an IPv6 ", "needs Linux")


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the reason a skipped test or module gave."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


class NoSilentSkips:
    """Collect the skips that do not say what they need."""

    def __init__(self) -> None:
        self.silent: list[str] = []

    def note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Remember a report if it is a silent skip, or a failure that is expected without a why."""
        if not report.skipped:
            return
        if hasattr(report, "wasxfail"):
            if not report.wasxfail:
                self.silent.append(f"{report.nodeid}: an expected failure")
            return
        reason = reason_of(report)
        if not reason.startswith(ACCEPTED_IN_CI if os.environ.get("CI") else ACCEPTED):
            self.silent.append(f"{report.nodeid}: {reason}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.note(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.silent and session.exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.silent:
            return
        terminalreporter.section("skipped without an accepted reason", red=True)
        for line in self.silent:
            terminalreporter.line(line)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(NoSilentSkips(), "no-silent-skips-collector")
