"""Where a coordinator's tests keep shared memory, of which none may be left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.worker.support import nothing_left


@pytest.fixture
def shared_memory(tmp_path: Path) -> Iterator[Path]:
    """Hold a test to leave no segment and no thread."""
    with nothing_left(tmp_path / "shared") as folder:
        yield folder
