"""What is compiled of this package, under the address and undefined-behavior sanitizers."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.long import few

ROOT = Path(__file__).parents[2]
SOURCES = {"_kernels": "codecs", "_exchange": "common"}
"""The folder of each extension's sources."""
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
SECONDS = 3


def library(name: str) -> str:
    """Return where the compiler has one of its libraries."""
    command = ["gcc", f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def compiled(folder: Path, name: str) -> Path:
    include = Path(sysconfig.get_path("include"))
    if shutil.which("gcc") is None or not (include / "Python.h").exists():
        pytest.skip("needs gcc and Python's headers")
    extension = folder / f"{name}.abi3.so"
    sources = map(str, sorted((ROOT / "tos_notebook" / SOURCES[name]).glob("*.c")))
    options = ["-O1", "-g", "-ffp-contract=off", "-shared", "-fPIC", *SANITIZE, f"-I{include}"]
    subprocess.run(["gcc", *options, *sources, "-lm", "-o", str(extension)], check=True)
    return extension


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("seconds", few([SECONDS, 120], SECONDS))
def test_no_call_reads_or_writes_where_it_must_not(tmp_path: Path, seconds: int, name: str) -> None:
    seed = random.SystemRandom().getrandbits(32)
    options = ["--seconds", str(seconds), "--seed", str(seed)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.kernels", str(compiled(tmp_path, name)), *options],
        cwd=ROOT,
        env=os.environ
        | {
            "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
            # Python frees what it keeps to the end without saying so.
            "ASAN_OPTIONS": "detect_leaks=0",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"seed {seed}: {done.stderr[-4000:]}"
    assert "'done'" in done.stdout
