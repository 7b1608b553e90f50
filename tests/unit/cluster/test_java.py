from __future__ import annotations

from pathlib import Path

import pytest

from tos_notebook.cluster.jvm import check_java
from tos_notebook.errors import JavaMissing


def fake_java(home: Path, script: str) -> dict[str, str]:
    """Install a shell script as JAVA_HOME's java; return the environment."""
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(home)}


def says(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"


@pytest.mark.parametrize(
    ("text", "version"), [("17.0.15", 17), ("21", 21), ("25-ea", 25), ("17.0.1+12", 17)]
)
def test_a_java_that_spark_runs_on_is_accepted(tmp_path: Path, text: str, version: int) -> None:
    assert check_java(fake_java(tmp_path, says(text))) == version


def test_java_is_found_on_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path, says("17.0.1"))
    assert check_java({"PATH": str(tmp_path / "bin")}) == 17


@pytest.mark.parametrize(("text", "version"), [("1.8.0_392", 8), ("11.0.2", 11)])
def test_an_old_java_is_named_with_what_to_install(tmp_path: Path, text: str, version: int) -> None:
    with pytest.raises(JavaMissing, match=rf"bin/java is Java {version}; Spark needs 17.*Install"):
        check_java(fake_java(tmp_path, says(text)))


def test_no_java_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match=rf"JAVA_HOME is not set.*PATH \({tmp_path}\).*Install"):
        check_java({"PATH": str(tmp_path)})


def test_a_wrong_java_home_is_not_passed_over_for_the_path(tmp_path: Path) -> None:
    """Spark would not look at the PATH either."""
    with pytest.raises(JavaMissing, match=r"JAVA_HOME is .*nowhere, but there is no"):
        check_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": "/usr/bin:/bin"})


def test_a_java_that_says_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match="does not tell its version; it says 'out of luck"):
        check_java(fake_java(tmp_path, "echo out of luck"))


def test_a_java_that_is_no_program_is_refused(tmp_path: Path) -> None:
    environment = fake_java(tmp_path, "")
    (tmp_path / "bin" / "java").write_bytes(b"\x7fELF nonsense")
    with pytest.raises(JavaMissing, match="does not run"):
        check_java(environment)
