"""What an installation makes of the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command: object, cwd: Path = ROOT, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


OFFLINE = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
SDIST = "import setuptools.build_meta, sys; setuptools.build_meta.build_sdist(sys.argv[1])"


def copy(source: Path) -> None:
    """Copy what is built: setuptools leaves files where it builds."""
    tracked = run("git", "ls-files", "-z", "setup.py", "pyproject.toml", "README.md", "LICENSE",
                  "MANIFEST.in", "CITATION.cff",
                  "tos_notebook", "labextension/install.json")  # fmt: skip
    for name in filter(None, tracked.split("\0")):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())


def build(folder: Path, **environment: str) -> Path:
    """Build a wheel from the sources; return it."""
    source = folder / "source"
    copy(source)
    return wheel_of(source, folder / "wheel", **environment)


def wheel_of(source: Path, out: Path, **environment: str) -> Path:
    """Build a wheel from a folder or a source distribution; return it."""
    run(sys.executable, "-m", "pip", "wheel", *OFFLINE, "-w", out, source, **environment)
    return next(out.glob("*.whl"))


def build_sdist(folder: Path) -> Path:
    """Build a source distribution from the sources; return it."""
    source, out = folder / "source", folder / "sdist"
    copy(source)
    run(sys.executable, "-c", SDIST, out, cwd=source)
    return next(out.glob("*.tar.gz"))
