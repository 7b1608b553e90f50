"""What the tests of this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.built import build


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it would be published, built once."""
    return build(tmp_path_factory.mktemp("wheel"))
