"""The session's secret is nowhere to be read, while it trains and afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.integration.leaks import Search, spellings

ROOT = Path(__file__).parents[2]
KINDS = ("pages", "rest", "cmdline", "environ", "reprs", "event log", "logs")


def test_the_secret_is_in_no_page_log_process_or_repr(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.leaks", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["found"] == []
    for kind in KINDS:
        assert report["looked"][kind] > 100, kind


def test_the_search_finds_each_spelling() -> None:
    secret = bytes(range(240, 256)) + b"'\"\\\n and text"
    for name, text in spellings(secret).items():
        search = Search(secret)
        search.look("kind", "place", b"before " + text + b" after")
        assert any(found.startswith(f"{name} in") for found in search.found)
    search = Search(secret)
    search.look("kind", "place", b"nothing")
    assert search.found == []
