"""What the tests of this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.built import build, build_sdist


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it would be published, built once."""
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its sources as they would be published, built once."""
    return build_sdist(tmp_path_factory.mktemp("sdist"))
