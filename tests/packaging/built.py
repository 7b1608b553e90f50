"""What an installation makes of the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command: object, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def build(folder: Path, **environment: str) -> Path:
    """Build a wheel from a copy: setuptools leaves files where it builds."""
    source, out = folder / "source", folder / "wheel"
    tracked = run("git", "ls-files", "-z", "setup.py", "pyproject.toml", "README.md", "LICENSE",
                  "tos_notebook", "labextension/install.json")  # fmt: skip
    for name in filter(None, tracked.split("\0")):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "wheel", *offline, "-w", out, source, **environment)
    return next(out.glob("*.whl"))
