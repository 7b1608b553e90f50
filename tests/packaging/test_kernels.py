"""The kernels in C are built where there is a compiler; the package also works without one."""

from __future__ import annotations

import shutil
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.packaging.built import build
from tos_notebook.codecs import native as kernels
from tos_notebook.common import native as exchange

COMPILER = (sysconfig.get_config_var("CC") or "cc").split()[0]


def compiled(wheel: Path) -> list[str]:
    return [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]


def test_a_compiler_builds_them_for_every_python(wheel: Path) -> None:
    if (
        shutil.which(COMPILER) is None
        or not Path(sysconfig.get_path("include"), "Python.h").exists()
    ):
        pytest.skip(f"needs {COMPILER} and Python's headers")
    assert sorted(compiled(wheel)) == [
        "tos_notebook/codecs/_kernels.abi3.so",
        "tos_notebook/common/_exchange.abi3.so",
    ]
    assert "-cp311-abi3-" in wheel.name
    for each in (kernels, exchange):
        assert each.extension is not None, "the package was installed without"


def test_without_a_compiler_the_package_installs_all_the_same(tmp_path: Path) -> None:
    assert compiled(build(tmp_path, CC="/nowhere/cc")) == []
