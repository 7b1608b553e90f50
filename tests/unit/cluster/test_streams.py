"""A growing file shows what was flushed, on every kind of file system."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tos_notebook.cluster import streams
from tos_notebook.cluster.files import is_local
from tos_notebook.cluster.storage import Storage
from tos_notebook.cluster.streams import Growing


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.endswith(".crc")}


def test_a_local_file_grows_at_each_flush_and_needs_no_spark(tmp_path: Path) -> None:
    file = Growing(None, str(tmp_path / "new"), "events")
    file.write(b"one")
    assert contents(tmp_path / "new") == {"events": b""}
    file.flush()
    assert contents(tmp_path / "new") == {"events": b"one"}
    file.write(b"two")
    file.close()
    file.close()
    assert contents(tmp_path / "new") == {"events": b"onetwo"}


@pytest.mark.parametrize("flushes", [True, False], ids=["hflush", "rolling files"])
def test_on_hadoop_it_is_flushed_or_goes_on_in_another_file(
    spark_context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flushes: bool
) -> None:
    monkeypatch.setattr(streams, "is_local", lambda uri: False)
    create = Storage.create

    def created(storage: Storage, name: str) -> Any:
        java = create(storage, name)
        calls = {n: getattr(java, n) for n in ("write", "flush", "close")}
        return SimpleNamespace(shown=flushes, **calls)

    monkeypatch.setattr(Storage, "create", created)
    file = Growing(spark_context, f"file://{tmp_path}", "events")
    assert file.rolls is not flushes
    for data in (b"one", b"", b"two\x00\xff"):
        file.write(data)
        file.flush()
    file.close()
    found = contents(tmp_path)
    assert b"".join(found[name] for name in sorted(found)) == b"onetwo\x00\xff"
    expected = {"events.000001"} if flushes else {"events.000001", "events.000002"}
    assert found.keys() == expected


def test_a_folder_replaces_one_of_its_name(spark_context: Any, tmp_path: Path) -> None:
    storage = Storage(spark_context, str(tmp_path / "store"))
    for name in ("old", "new"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text(name)
        storage.write("model", folder)
    found = [p.name for p in (tmp_path / "store" / "model").iterdir()]
    assert [name for name in found if not name.endswith(".crc")] == ["new"]
    assert storage.folders() == ["model"]


@pytest.mark.parametrize(
    ("uri", "expected"),
    [("/a", True), ("a/b", True), ("file:///a", True), ("hdfs:///a", False), ("s3a://b/a", False)],
)
def test_what_is_local(uri: str, expected: bool) -> None:
    assert is_local(uri) is expected
