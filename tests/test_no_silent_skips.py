from __future__ import annotations

import pytest

pytest_plugins = "pytester"


@pytest.mark.parametrize(
    ("source", "exit_code"),
    [
        ("def test(): pass", pytest.ExitCode.OK),
        ("def test(): pytest.skip('needs a browser')", pytest.ExitCode.OK),
        ("@pytest.mark.skip('needs two hosts')\ndef test(): pass", pytest.ExitCode.OK),
        ("@pytest.mark.xfail\ndef test(): raise ValueError", pytest.ExitCode.OK),
        ("def test(): pytest.skip()", pytest.ExitCode.TESTS_FAILED),
        ("@pytest.mark.skip('later')\ndef test(): pass", pytest.ExitCode.TESTS_FAILED),
        ("def test(): pytest.importorskip('no_such_module')", pytest.ExitCode.TESTS_FAILED),
        ("pytest.importorskip('no_such_module')", pytest.ExitCode.TESTS_FAILED),
        ("def test(): raise ValueError", pytest.ExitCode.TESTS_FAILED),
    ],
)
def test_only_a_skip_that_says_what_it_needs_is_accepted(
    pytester: pytest.Pytester, source: str, exit_code: pytest.ExitCode
) -> None:
    pytester.makepyfile(f"import pytest\n{source}")
    result = pytester.runpytest_inprocess("-p", "tests.no_silent_skips")
    assert result.ret == exit_code


def test_silent_skips_are_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\ndef test_a(): pytest.skip('flaky')")
    result = pytester.runpytest_inprocess("-p", "tests.no_silent_skips")
    result.stdout.fnmatch_lines(["*without a reason*", "*test_a: flaky"])
