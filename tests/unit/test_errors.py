"""Errors of this package as IPython shows them."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tos_notebook.errors import ConfigError, WorkerError


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (ConfigError("epochs: expected 1, got 0."), ["ConfigError: epochs: expected 1, got 0."]),
        (
            WorkerError("ValueError: x", "1", "host", 3, 0, ['  File "cell", line 2']),
            [
                "WorkerError: ValueError: x  [on executor 1 (host), partition 3, attempt 0]",
                '  File "cell", line 2',
            ],
        ),
        (
            WorkerError("ValueError: x", "1", "host", 3, 0, [], 2, [7, 7]),
            [
                "WorkerError: ValueError: x  "
                "[on executor 1 (host), partition 3, attempt 0, epoch 3, batch 7]",
            ],
        ),
    ],
)
def test_a_cell_shows_what_is_wrong_and_none_of_our_frames(
    error: Exception, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shell = InteractiveShell.instance()
    shell.user_ns["error"] = error
    result = shell.run_cell("raise error", store_history=False)
    assert result.error_in_exec is error
    assert capsys.readouterr().out.splitlines() == lines
    InteractiveShell.clear_instance()
