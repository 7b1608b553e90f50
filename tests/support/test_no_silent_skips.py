from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytest_plugins = "pytester"


@pytest.mark.parametrize(
    ("source", "exit_code"),
    [
        ("def test(): pass", pytest.ExitCode.OK),
        ("def test(): pytest.skip('needs a browser')", pytest.ExitCode.OK),
        ("@pytest.mark.skip('needs two hosts')\ndef test(): pass", pytest.ExitCode.OK),
        ("@pytest.mark.xfail(reason='why')\ndef test(): raise ValueError", pytest.ExitCode.OK),
        ("@pytest.mark.xfail\ndef test(): raise ValueError", pytest.ExitCode.TESTS_FAILED),
        ("def test(): pytest.skip()", pytest.ExitCode.TESTS_FAILED),
        ("@pytest.mark.skip('later')\ndef test(): pass", pytest.ExitCode.TESTS_FAILED),
        ("def test(): pytest.importorskip('no_such_module')", pytest.ExitCode.TESTS_FAILED),
        ("pytest.importorskip('no_such_module')", pytest.ExitCode.TESTS_FAILED),
        ("def test(): raise ValueError", pytest.ExitCode.TESTS_FAILED),
    ],
)
def test_only_a_skip_that_says_what_it_needs_is_accepted(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    exit_code: pytest.ExitCode,
) -> None:
    monkeypatch.delenv("CI", raising=False)
    pytester.makepyfile(f"import pytest\n{source}")
    result = pytester.runpytest_inprocess("-p", "tests.support.no_silent_skips")
    assert result.ret == exit_code


def test_silent_skips_are_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\ndef test_a(): pytest.skip('flaky')")
    result = pytester.runpytest_inprocess("-p", "tests.support.no_silent_skips")
    result.stdout.fnmatch_lines(["*without an accepted reason*", "*test_a: flaky"])


@pytest.mark.parametrize(
    ("reason", "exit_code"),
    [
        ("needs a GPU", pytest.ExitCode.OK),
        ("needs a browser", pytest.ExitCode.TESTS_FAILED),
    ],
)
@pytest.mark.parametrize("processes", [[], ["-n", "1"]], ids=["alone", "with xdist"])
def test_where_all_is_installed_only_what_a_machine_may_lack_is_accepted(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    reason: str,
    exit_code: pytest.ExitCode,
    processes: list[str],
) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(f"import pytest\ndef test(): pytest.skip({reason!r})")
    result = pytester.runpytest_subprocess("-p", "tests.support.no_silent_skips", *processes)
    assert result.ret == exit_code
