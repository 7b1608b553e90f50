"""What can be checked of Binder without docker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.notebooks.as_binder import lend
from tests.notebooks.constraints import named, needed, normal

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


REQUIREMENTS = (BINDER / "requirements.txt").read_text(encoding="utf-8")


def test_the_requirements_are_this_package_with_all_that_the_course_imports() -> None:
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    [package] = named(REQUIREMENTS)
    assert package.name == "tos_notebook"
    assert package.extras == {"demo", "lab", "tensorboard"}
    assert all(f'"{extra}": ' in setup for extra in package.extras)
    # A name that begins with a dot tells repo2docker to copy the repository first.
    assert lines("requirements.txt") == ["-c constraints.txt", ".[demo,lab,tensorboard]"]


def test_what_the_package_asks_for_is_pinned_to_a_version_that_it_takes() -> None:
    pinned = dict(line.split("==") for line in lines("constraints.txt"))
    [package] = named(REQUIREMENTS)
    for each in map(Requirement, distribution(package.name).requires or ()):
        extras = ("", *package.extras)
        if each.marker is None or any(each.marker.evaluate({"extra": one}) for one in extras):
            version = pinned[normal(each.name)]
            assert each.specifier.contains(version), f"{each}: binder/constraints.txt has {version}"


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


def test_start_finds_what_post_build_archives() -> None:
    """A Spark without its archive of classes would start as well, but in twice the time."""
    made = re.search(
        r'tools\.class_data "\$PWD/binder/(.+)"', (BINDER / "postBuild").read_text("utf-8")
    )
    assert made
    show = "import os; print(os.environ['SPARK_SUBMIT_OPTS'])"
    done = subprocess.run(
        [BINDER / "start", sys.executable, "-c", show],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[0] == f"-XX:SharedArchiveFile={BINDER / made[1]}"


@pytest.fixture(scope="module")
def dockerfile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What repo2docker would build of this repository; it needs no Docker to say so."""
    repository = tmp_path_factory.mktemp("repository")
    shutil.copytree(BINDER, repository / "binder")
    done = subprocess.run(
        [sys.executable, "-m", "repo2docker", "--no-build", "--debug", repository],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "step",
    [
        "conda environment for python=3.11",
        "apt-get install --yes --no-install-recommends openjdk-17-jre-headless",
        '/bin/pip install --no-cache-dir -r "binder/requirements.txt"',
        "RUN ./binder/postBuild",
        'ENV R2D_ENTRYPOINT="${REPO_DIR}/binder/start"',
    ],
)
def test_binder_builds_java_python_the_package_and_our_scripts(dockerfile: str, step: str) -> None:
    assert step in dockerfile


def test_binder_has_the_repository_before_it_installs_the_package(dockerfile: str) -> None:
    assert dockerfile.index("COPY --chown=0:0 src/ ${REPO_DIR}/") < dockerfile.index("pip install")


def test_what_is_lent_to_binders_environment_is_what_its_requirements_name() -> None:
    """What they leave out is missed there, as it would be on Binder."""
    names = {each.metadata["Name"].lower() for each in needed(named(".[demo,lab]"))}
    assert {"tensorflow", "keras", "pyspark", "jupyterlab", "numpy"} <= names
    assert not {"pytest", "hypothesis", "nbval", "sphinx", "mypy", "tos_notebook"} & names


def test_a_program_that_is_lent_runs_in_its_new_environment(tmp_path: Path) -> None:
    lend(".[lab]  # the browser's side", tmp_path)
    script = tmp_path / "bin/jupyter-lab"
    assert str(tmp_path) in script.read_text(encoding="utf-8").splitlines()[0]
    assert os.access(script, os.X_OK)
