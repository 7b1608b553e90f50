"""What can be checked of Binder without docker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
BINDER = ROOT / "binder"


def lines(name: str) -> list[str]:
    text = (BINDER / name).read_text(encoding="utf-8")
    return [line.strip() for line in text.splitlines() if line.split("#")[0].strip()]


def test_java_comes_from_debian() -> None:
    assert lines("apt.txt") == ["openjdk-17-jre-headless"]


def test_python_is_one_that_the_package_takes() -> None:
    wanted = re.search(r'python_requires="([^"]+)"', (ROOT / "setup.py").read_text("utf-8"))
    assert wanted
    [runtime] = lines("runtime.txt")
    version = runtime.removeprefix("python-")
    assert Requirement(f"python{wanted[1]}").specifier.contains(version)


def test_the_requirements_are_this_package_with_digits_and_jupyterlab() -> None:
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    for line in lines("requirements.txt"):
        # A name that begins with a dot tells repo2docker to copy the repository first.
        local = re.sub(r"^\.(?=\[)", "tos_notebook", line)
        extras = Requirement(local).extras
        assert extras == {"demo", "lab"}
        assert all(f'"{extra}": ' in setup for extra in extras)


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_a_script_is_executable_bash_without_a_syntax_error(name: str) -> None:
    script = BINDER / name
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").startswith("#!/bin/bash\n")
    subprocess.run(["bash", "-n", script], check=True)


def test_start_sets_java_home_and_becomes_the_command_it_is_given(tmp_path: Path) -> None:
    assert lines("start")[-1] == 'exec "$@"'
    java = tmp_path / "jvm" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    link = tmp_path / "bin"
    link.mkdir()
    (link / "java").symlink_to(java)
    show = "import os, sys; print(os.environ['JAVA_HOME'], *sys.argv[1:], sep='|')"
    done = subprocess.run(
        [BINDER / "start", sys.executable, "-c", show, "two words"],
        env={"PATH": f"{link}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"{tmp_path / 'jvm'}|two words"


def test_post_build_imports_what_the_notebooks_need() -> None:
    program = re.search(r'python -c "([^"]+)"', (BINDER / "postBuild").read_text("utf-8"))
    assert program
    for name in ("anywidget", "keras", "pyspark", "sklearn", "tos_notebook"):
        assert name in program[1]
