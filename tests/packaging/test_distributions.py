"""The source distribution holds all that a wheel is made of, and both say what the package is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.integration.test_demo import learns
from tests.packaging.built import ROOT, wheel_of
from tos_notebook import __version__


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


def test_a_wheel_of_the_source_distribution_holds_the_same_files(
    wheel: Path, sdist: Path, tmp_path: Path
) -> None:
    again = wheel_of(sdist, tmp_path / "wheel")
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

    command = [own, "-c", "import tos_notebook; print(tos_notebook.__file__)"]
    where = subprocess.run(
        command, cwd=tmp_path, env=env, check=True, capture_output=True, text=True
    ).stdout
    assert where.strip() == str(site / "tos_notebook/__init__.py")
    learns(tmp_path, own)


def test_the_source_distribution_says_how_it_is_cited(sdist: Path) -> None:
    with tarfile.open(sdist) as opened:
        assert any(name.endswith("/CITATION.cff") for name in opened.getnames())


def urls(folder: Path) -> list[str]:
    """Return the addresses that a build of a folder would name."""
    command = [sys.executable, "setup.py", "--quiet", "egg_info"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    text = (folder / "tos_notebook.egg-info/PKG-INFO").read_text(encoding="utf-8")
    return re.findall(r"^Project-URL: (.+)$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("remote", "page"),
    [
        ("https://code.example/team/tos_notebook.git", "https://code.example/team/tos_notebook"),
        ("https://me:secret@code.example/team/tos", "https://code.example/team/tos"),
        ("git@code.example:team/tos_notebook.git", "https://code.example/team/tos_notebook"),
        ("/somewhere/tos_notebook", None),
    ],
)
def test_a_distribution_names_the_page_that_it_was_cloned_from_and_no_password(
    remote: str, page: str | None, tmp_path: Path
) -> None:
    checkout, unpacked = tmp_path / "checkout", tmp_path / "unpacked"
    for name in ("setup.py", "README.md", "tos_notebook/_version.py"):
        for folder in (checkout, unpacked):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    subprocess.run(["git", "init", "--quiet", checkout], check=True)
    subprocess.run(["git", "-C", checkout, "remote", "add", "origin", remote], check=True)
    expected = [] if page is None else [f"Issues, {page}/issues", f"Source, {page}"]
    assert sorted(urls(checkout)) == expected
    # As in a source distribution, of which `python -m build` makes the wheel.
    shutil.copy(checkout / "tos_notebook.egg-info/PKG-INFO", unpacked / "PKG-INFO")
    assert sorted(urls(unpacked)) == expected


def test_the_citation_names_this_version() -> None:
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", cited, re.MULTILINE)[1] == __version__  # type: ignore[index]
