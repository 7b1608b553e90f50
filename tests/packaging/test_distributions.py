"""The source distribution holds all that a wheel is made of, and both say what the package is."""

from __future__ import annotations

import re
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


def test_the_source_distribution_says_how_it_is_cited(tmp_path: Path) -> None:
    with tarfile.open(build_sdist(tmp_path)) as opened:
        assert any(name.endswith("/CITATION.cff") for name in opened.getnames())


def test_the_citation_names_this_version() -> None:
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", cited, re.MULTILINE)[1] == __version__  # type: ignore[index]
