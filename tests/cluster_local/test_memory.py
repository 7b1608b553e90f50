"""How large an embedded Spark's heap is, by machine and container."""

from __future__ import annotations

from pathlib import Path

import pytest

from tos_notebook.cluster import memory

GIB = 2**30


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("max", "2048m"), (str(2 * GIB), "512m"), (str(4 * GIB), "1024m"), (str(GIB // 2), "512m")],
)
def test_a_container_s_limit_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str, expected: str
) -> None:
    path = tmp_path / "memory.max"
    path.write_text(f"{limit}\n")
    monkeypatch.setattr(memory, "LIMITS", (str(tmp_path / "none"), str(path)))
    monkeypatch.setattr("os.sysconf", {"SC_PHYS_PAGES": 16 * GIB // 4096, "SC_PAGE_SIZE": 4096}.get)
    assert memory.driver_memory() == expected
