from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from tos_notebook.cluster.files import archive_name, fetch, fetch_archive, find_files, list_files
from tos_notebook.cluster.storage import Storage
from tos_notebook.errors import CheckpointError, ConfigError, DataError


@pytest.fixture
def storage(spark_context: Any, tmp_path: Path) -> Storage:
    return Storage(spark_context, str(tmp_path / "files"))


@pytest.fixture
def elsewhere(spark_context: Any, tmp_path: Path) -> Storage:
    """A directory on a file system that is not this machine's own, as far as it says."""
    (tmp_path / "files").mkdir()
    spark_context._jsc.hadoopConfiguration().set(
        f"fs.viewfs.mounttable.{tmp_path.name}.link./files", (tmp_path / "files").as_uri()
    )
    return Storage(spark_context, f"viewfs://{tmp_path.name}/files")


@pytest.mark.parametrize("data", [b"", b"\x00\xff" * 5000, memoryview(b"view")])
def test_what_is_written_is_read(storage: Storage, data: Any) -> None:
    uri = storage.write("a.bin", data)
    assert uri == f"{storage.uri}/a.bin"
    assert uri.startswith("file:/")
    assert storage.read("a.bin") == bytes(data)


def test_a_file_is_replaced_and_nothing_is_left_beside_it(storage: Storage) -> None:
    storage.write("a.bin", b"old and long")
    storage.write("a.bin", b"new")
    assert storage.read("a.bin") == b"new"
    left = sorted(path.name for path in Path(storage.uri.removeprefix("file:")).iterdir())
    assert [name for name in left if not name.endswith(".crc")] == ["a.bin"]


def test_a_file_is_on_the_disk_before_it_has_its_name_and_the_folder_after(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Path(storage.uri.removeprefix("file:"))
    seen: list[tuple[bool, bool]] = []

    def recorded(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        seen.append((is_folder, (place / "a.bin").exists()))
        fsync(descriptor)

    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", recorded)
    storage.write("a.bin", b"data")
    # The file and its checksums, then the folder.
    assert seen == [(False, False), (False, False), (True, True)]


class Recording:
    """A file system, or a stream of one, that syncs as HDFS does and notes what is done."""

    def __init__(self, real: Any, calls: list[str], can_sync: bool) -> None:
        self.real, self._calls, self._can_sync = real, calls, can_sync

    def create(self, *arguments: Any) -> Any:
        self._calls.append("create")
        return Recording(self.real.create(*arguments), self._calls, self._can_sync)

    def hasCapability(self, name: str) -> bool:
        assert name == "hsync"
        return self._can_sync

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self._calls.append(name)
            return None if name == "hsync" else getattr(self.real, name)(*arguments)

        return call


@pytest.mark.parametrize("can_sync", [True, False])
def test_a_file_is_synced_before_it_is_closed_and_renamed_where_that_can_be_done(
    elsewhere: Storage, monkeypatch: pytest.MonkeyPatch, can_sync: bool
) -> None:
    """On HDFS, that is; an object store has it when it is closed."""
    storage = elsewhere
    calls: list[str] = []
    monkeypatch.setattr(storage, "_fs", Recording(storage._fs, calls, can_sync))

    def copied(given: Any, file: Recording, conf: Any, close: bool) -> None:
        file.real.write(given.readAllBytes())

    monkeypatch.setattr(storage, "_transfer", copied)
    storage.write("a.bin", b"data")
    synced = ["hsync"] * can_sync
    in_order = [c for c in calls if c in ("create", "hsync", "close", "rename")]
    assert in_order == ["create", *synced, "close", "rename"]
    assert storage.read("a.bin") == b"data"


def test_a_failed_replacement_leaves_the_old_file_and_no_temporary_one(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.write("a.bin", b"old")

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(storage, "_replace", fail)
    with pytest.raises(CheckpointError, match=r"Cannot write 'a.bin' in file:.*: disk full"):
        storage.write("a.bin", b"new")
    assert storage.read("a.bin") == b"old"
    folder = Path(storage.uri.removeprefix("file:"))
    assert not [path for path in folder.iterdir() if "tmp" in path.name]


def test_what_a_killed_process_left_unfinished_is_deleted_a_day_later(storage: Storage) -> None:
    storage.write("a.bin", b"data")
    place = Path(storage.uri.removeprefix("file:"))
    old, young = (place / f".tmp-{digit * 32}" for digit in "01")
    theirs, folder = place / ".tmp-work", place / f".tmp-{'2' * 32}"
    for path in (old, young, theirs):
        path.write_bytes(b"half")
    folder.mkdir()
    for path in (old, theirs, folder, place / "a.bin"):
        os.utime(path, (0, 0))
    storage.sweep()
    assert (old.exists(), young.exists(), storage.list()) == (False, True, ["a.bin"])
    assert (theirs.exists(), folder.exists()) == (True, True)


def test_files_are_listed_found_and_deleted(storage: Storage) -> None:
    assert storage.list() == []
    for name in ("b", "a"):
        storage.write(name, b"")
    assert storage.list() == ["a", "b"]
    assert storage.exists("a")
    assert storage.delete("a")
    assert not storage.delete("a")
    assert not storage.exists("a")
    assert storage.list() == ["b"]


def test_a_new_file_is_written_by_one_of_those_who_try(storage: Storage) -> None:
    assert storage.write_new("owner", b"first")
    assert not storage.write_new("owner", b"second")
    assert storage.read("owner") == b"first"
    assert storage.list() == ["owner"]


def test_a_new_file_is_created_exclusively_on_other_file_systems_too(
    elsewhere: Storage,
) -> None:
    test_a_new_file_is_written_by_one_of_those_who_try(elsewhere)


def test_a_file_that_is_not_there_is_named(storage: Storage) -> None:
    with pytest.raises(CheckpointError, match=r"Cannot read 'a.bin' in file:.*files: .*") as caught:
        storage.read("a.bin")
    assert len(str(caught.value).splitlines()) == 1


def test_a_place_that_cannot_be_written_is_named(spark_context: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match="Cannot write 'a' in"):
        Storage(spark_context, str(tmp_path / "file")).write("a", b"")


@pytest.mark.parametrize("name", ["", "..", ".", "a/b", "/a", "a\\b", ".hidden", "c:d"])
def test_names_stay_inside_the_directory(storage: Storage, name: str) -> None:
    for action in (storage.read, storage.exists, storage.delete):
        with pytest.raises(ConfigError, match="file name without directories"):
            action(name)
    with pytest.raises(ConfigError, match="file name without directories"):
        storage.write(name, b"")


def test_an_unknown_file_system_is_refused_at_once(spark_context: Any) -> None:
    with pytest.raises(ConfigError, match=r"Cannot use .ftp://127\.0\.0\.1:1/x. for files"):
        Storage(spark_context, "ftp://127.0.0.1:1/x")
    with pytest.raises(ConfigError, match=r"Cannot use 'nosuch://x/y' for files: .*nosuch"):
        Storage(spark_context, "nosuch://x/y")


def test_what_is_published_is_on_every_executor(spark_context: Any, storage: Storage) -> None:
    name = "published-1.bin"
    uri = storage.publish(name, b"graph")
    assert storage.publish(name, b"graph") == uri
    fetched = (
        spark_context.parallelize(range(2), 2).map(lambda _: fetch(name).read_bytes()).collect()
    )
    assert fetched == [b"graph"] * 2


def test_what_two_directories_publish_is_sent_once(
    spark_context: Any, storage: Storage, tmp_path: Path
) -> None:
    """A cluster's Spark would refuse the second."""
    (tmp_path / "archive").write_bytes(os.urandom(8))
    name = archive_name("program", tmp_path / "archive")
    for place in (storage, storage.inside("another")):
        place.publish(name, tmp_path / "archive")
        assert place.exists(name)
    assert sum(file.endswith(name) for file in spark_context.listFiles) == 1


def test_another_content_under_a_published_name_is_refused(storage: Storage) -> None:
    storage.publish("published-2.bin", b"one")
    with pytest.raises(ConfigError, match="published with another content"):
        storage.publish("published-2.bin", b"two")
    assert storage.read("published-2.bin") == b"one"


def test_another_program_than_the_driver_s_is_not_loaded(
    spark_context: Any, storage: Storage, tmp_path: Path
) -> None:
    """In the session's directory, or on its way, somebody may have put another one there."""
    from pyspark import SparkFiles

    archive = tmp_path / "archive.zip"
    archive.write_bytes(b"the driver's program")
    name = archive_name("program", archive)
    storage.publish(name, archive)
    assert fetch_archive(name).read_bytes() == b"the driver's program"
    fetched = Path(SparkFiles.get(name))
    fetched.write_bytes(b"another's program")
    with pytest.raises(CheckpointError, match=r"expected program 'program-\w+\.zip'.*not loaded"):
        fetch_archive(name)
    # Spark compares it, too, before the next test's tasks.
    shutil.copy(archive, fetched)


def test_a_file_that_was_never_published_is_named(spark_context: Any) -> None:
    with pytest.raises(CheckpointError, match=r"published file 'unknown.bin' is not on this"):
        fetch("unknown.bin")


def test_a_bare_path_is_on_sparks_default_file_system(
    spark_context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the files of runs as for data; where that is this machine, ~ is the user's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Storage(spark_context, "runs").uri == f"file:{tmp_path}/runs"
    assert Storage(spark_context, "~/runs").uri == f"file:{tmp_path}/home/runs"
    conf = spark_context._jsc.hadoopConfiguration()
    before = conf.get("fs.defaultFS")
    conf.set("fs.defaultFS", "hdfs://127.0.0.1:9")
    conf.set("ipc.client.connect.max.retries", "0")
    try:
        assert re.fullmatch(r"hdfs://127.0.0.1:9/user/\w+/runs", Storage(spark_context, "runs").uri)
        with pytest.raises(DataError, match=r"Cannot look for files at 'data': .*:9 failed"):
            list_files(spark_context, "data")
        assert Storage(spark_context, f"file://{tmp_path}").uri == f"file:{tmp_path}"
    finally:
        conf.set("fs.defaultFS", before)
        conf.unset("ipc.client.connect.max.retries")


def test_find_files_takes_files_directories_and_globs(spark_context: Any, tmp_path: Path) -> None:
    for name in ("a.gz", "b", ".hidden", "_SUCCESS"):
        (tmp_path / name).touch()
    (tmp_path / "inner").mkdir()

    def names(pattern: str) -> list[str]:
        return [uri.rsplit("/", 1)[1] for uri in find_files(spark_context, pattern)]

    assert names(str(tmp_path)) == ["a.gz", "b"]
    assert names(f"file://{tmp_path}/b") == ["b"]
    assert names(f"{tmp_path}/*.gz") == ["a.gz"]
    assert names(f"{tmp_path}/c") == []
