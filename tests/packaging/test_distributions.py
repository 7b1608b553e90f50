"""The source distribution holds all that a wheel is made of, and both say what the package is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

from tests.packaging.built import ROOT, build_sdist, wheel_of
from tos_notebook import __version__


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


def test_a_wheel_of_the_source_distribution_holds_the_same_files(
    wheel: Path, tmp_path: Path
) -> None:
    again = wheel_of(build_sdist(tmp_path), tmp_path / "wheel")
    assert names(again) == names(wheel)
    assert "tos_notebook/py.typed" in names(wheel)


def test_a_wheel_trains_in_an_environment_that_has_what_it_requires_alone(
    wheel: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    own, python = environment / "bin/python", sysconfig.get_python_version()
    site = environment / f"lib/python{python}/site-packages"
    # What it requires is there. This checkout is not: no file of paths is read in that folder.
    (site / "required.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    options = ["--no-deps", "--no-index", "--no-compile", "--quiet"]
    pip = [sys.executable, "-m", "pip", "--python", own, "install"]
    subprocess.run([*pip, *options, wheel], check=True)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def said(*arguments: str) -> str:
        return subprocess.run(
            [own, *arguments], cwd=tmp_path, env=env, check=True, capture_output=True, text=True
        ).stdout

    where = said("-c", "import tos_notebook; print(tos_notebook.__file__)")
    assert where.strip() == str(site / "tos_notebook/__init__.py")
    assert "finished" in said("-m", "tos_notebook.demo", "--epochs", "2", "--master", "local[2]")


def test_the_source_distribution_says_how_it_is_cited(tmp_path: Path) -> None:
    with tarfile.open(build_sdist(tmp_path)) as opened:
        assert any(name.endswith("/CITATION.cff") for name in opened.getnames())


def test_the_citation_names_this_version() -> None:
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", cited, re.MULTILINE)[1] == __version__  # type: ignore[index]
