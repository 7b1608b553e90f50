"""The wheel brings the JupyterLab plug-in along: no node, no build, nothing to enable."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.packaging.built import ROOT, run

NAME = "tos-notebook"
PLACE = Path("share/jupyter/labextensions", NAME)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty virtual environment with nothing but the wheel; return its prefix."""
    prefix = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", prefix)
    pip = (sys.executable, "-m", "pip", f"--python={prefix / 'bin/python'}")
    run(*pip, "install", "--no-deps", "--no-index", "--disable-pip-version-check", wheel)
    return prefix


def test_jupyterlab_finds_it_and_has_nothing_to_complain_of(installed: Path) -> None:
    # JupyterLab itself is borrowed from this environment; no node is on the path.
    borrowed = next(path for path in sys.path if path.endswith("site-packages"))
    listed = run(
        installed / "bin/python", "-m", "jupyterlab.labextensions", "list",
        PYTHONPATH=borrowed, PATH=str(installed / "bin"),
        JUPYTER_CONFIG_DIR=str(installed / "config"),
    )  # fmt: skip
    plain = re.sub(r"\x1b\[\d+m", "", listed)
    assert str(installed / PLACE.parent) in plain
    assert re.search(rf"{NAME} v\S+ enabled OK \(python, tos_notebook\)", plain), plain


def test_what_is_installed_is_what_is_in_the_package(installed: Path) -> None:
    built = ROOT / "tos_notebook/labextension"
    files = {path.relative_to(built) for path in built.rglob("*") if path.is_file()}
    place = installed / PLACE
    placed = {path.relative_to(place) for path in place.rglob("*") if path.is_file()}
    assert placed == files | {Path("install.json")}
    for name in files:
        assert (place / name).read_bytes() == (built / name).read_bytes()


def test_its_entry_and_its_settings_are_there() -> None:
    built = ROOT / "tos_notebook/labextension"
    described = json.loads((built / "package.json").read_text(encoding="utf-8"))
    assert described["name"] == NAME
    build = described["jupyterlab"]["_build"]
    assert (built / build["load"]).is_file()
    assert build["extension"] == "./extension"
    schema = json.loads((built / "schemas" / NAME / "plugin.json").read_text(encoding="utf-8"))
    assert {"updateSeconds", "points", "axis", "notify", "notifyAfter"} <= set(schema["properties"])


def test_the_launchers_notebook_needs_no_folder_of_the_course() -> None:
    scripts = (ROOT / "tos_notebook/labextension/static").glob("*.js")
    texts = [path.read_text(encoding="utf-8") for path in scripts]
    (template,) = (text for text in texts if "%%tos_train --data train" in text)
    assert "## Compare" in template
    assert "## Next steps" in template
    assert "tos_workshop" not in template


def test_it_is_small(installed: Path) -> None:
    scripts = (installed / PLACE / "static").glob("*.js")
    assert 50_000 < sum(path.stat().st_size for path in scripts) < 300_000


def test_contributors_can_link_it() -> None:
    from tos_notebook import _jupyter_labextension_paths

    [place] = _jupyter_labextension_paths()
    assert place == {"src": "labextension", "dest": NAME}
    assert (ROOT / "tos_notebook" / place["src"] / "package.json").is_file()
