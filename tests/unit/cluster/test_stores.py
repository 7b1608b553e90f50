"""Files of a folder through the JVM and through pyarrow: the same files, and errors with a name."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import ArrowNotImplementedError, fs

from tos_notebook.cluster import streams
from tos_notebook.cluster.arrow_storage import ArrowStorage
from tos_notebook.cluster.opening import open_store
from tos_notebook.cluster.storage import Storage
from tos_notebook.cluster.stores import FileStore
from tos_notebook.cluster.streams import Growing
from tos_notebook.errors import CheckpointError, ConfigError

Open = Callable[[Path], FileStore]


@pytest.fixture(params=["JVM", "pyarrow"])
def opened(request: pytest.FixtureRequest, spark_context: Any) -> Open:
    """Open a folder of this machine by each of the two."""
    sc = spark_context if request.param == "JVM" else None
    return lambda folder: open_store(sc, str(folder))


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> fs.FileSystem:
    """A file system that is not this machine's own, as far as it says."""
    made = fs._MockFileSystem()
    real = fs.FileSystem.from_uri
    monkeypatch.setattr(
        fs, "FileSystem", type("Known", (), {"from_uri": lambda uri: _known(made, real, uri)})
    )
    return made


def _known(made: fs.FileSystem, real: Any, uri: str) -> Any:
    scheme, _, place = uri.partition("://")
    return (made, place) if scheme in ("mock", "s3") else real(uri)


def _files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in paths
        if not path.name.endswith(".crc")
    }


def _use(store: FileStore, local: Path) -> list[object]:
    """Do all that a run does with its folder; return what it hears."""
    local.write_bytes(b"\x00\xff" * 5000)
    inner = store.inside("run-1")
    said: list[object] = [store.list(), store.folders(), inner.exists("a")]
    said += [inner.write_new("owner", b"first"), inner.write_new("owner", b"second")]
    inner.write("checkpoint", b"old and long")
    inner.write("checkpoint", memoryview(b"new"))
    inner.write("program", local)
    inner.write("gone.gz", b"\x1f\x8b not compressed")
    said += [inner.read("gone.gz"), inner.delete("gone.gz"), inner.delete("gone.gz")]
    said += [inner.list(), store.folders(), inner.size(), inner.length("program")]
    said += [inner.read("owner"), inner.head("program", 3), inner.head("owner", 99)]
    inner.copy_out("program", local)
    return [*said, local.read_bytes()]


def test_both_write_the_same_folder_and_say_the_same(spark_context: Any, tmp_path: Path) -> None:
    said = {}
    for name, sc in (("jvm", spark_context), ("arrow", None)):
        folder = tmp_path / f"{name} ü %20"
        store = open_store(sc, str(folder))
        assert store.uri == f"file:{folder}"
        said[name] = _use(store, tmp_path / "local")
    jvm, arrow = (tmp_path / f"{name} ü %20" for name in said)
    assert said["jvm"] == said["arrow"]
    assert _files(jvm) == _files(arrow)
    assert [path.name for path in arrow.rglob("*.crc")] == []


def test_each_reads_and_replaces_what_the_other_wrote(spark_context: Any, tmp_path: Path) -> None:
    """Hadoop keeps checksums beside a file, and would compare another one with them."""
    jvm, arrow = Storage(spark_context, str(tmp_path)), ArrowStorage(tmp_path)
    jvm.write("a", b"by the JVM")
    assert arrow.read("a") == b"by the JVM"
    arrow.write("a", b"by pyarrow")
    assert jvm.read("a") == b"by pyarrow"
    jvm.write("a", b"again")
    assert arrow.read("a") == b"again"
    assert arrow.delete("a")
    jvm.write("a", b"and again")
    assert (jvm.read("a"), jvm.list(), arrow.list()) == (b"and again", ["a"], ["a"])


def test_what_cannot_be_read_or_written_is_named(opened: Open, tmp_path: Path) -> None:
    store = opened(tmp_path / "missing")
    assert (store.list(), store.folders()) == ([], [])
    for ask in (store.read, store.length):
        with pytest.raises(CheckpointError, match=r"Cannot (read|measure) 'a' in file:.*missing"):
            ask("a")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match="Cannot write 'a' in file:"):
        opened(tmp_path / "file").write("a", b"")
    with pytest.raises(ConfigError, match="file name without directories"):
        store.write("../a", b"")


def test_who_may_not_write_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ArrowStorage(tmp_path)

    def refuse(*given: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(store, "_open_new", refuse)
    with pytest.raises(CheckpointError, match=r"Cannot write 'a' in file:.*Permission denied"):
        store.write("a", b"")


@pytest.mark.parametrize("name", ["nosuch://x/y", "hdfs:/x"])
def test_a_file_system_that_is_not_there_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(uri: str) -> None:
        raise OSError("Unable to load libhdfs\nand more")

    if name.startswith("hdfs"):
        monkeypatch.setattr(fs, "FileSystem", type("None", (), {"from_uri": unknown}))
    with pytest.raises(ConfigError, match=f"Cannot use '{name}' for files: Un\\S+ \\S+"):
        ArrowStorage(name)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Unable to load libjvm", r"Set JAVA_HOME, HADOOP_HOME .* and CLASSPATH"),
        ("Prior attempt to load libhdfs failed", r"failed\. Install Hadoop"),
        ("No OAuth2 access token. ", r"token\. Set GOOGLE_APPLICATION_CREDENTIALS"),
        ("[Errno 2] google::cloud::Status(NOT_FOUND: no error_info={x})", "] NOT_FOUND: no$"),
    ],
)
def test_what_a_file_system_lacks_is_told_with_what_to_do(
    said: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(uri: str) -> None:
        raise OSError(said)

    monkeypatch.setattr(fs, "FileSystem", type("None", (), {"from_uri": refuse}))
    with pytest.raises(ConfigError, match=told):
        ArrowStorage("hdfs:///runs")


def test_without_pyarrow_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"'file:/x' for files without a JVM: .*Install pyarrow"):
        ArrowStorage("file:/x")


def test_what_breaks_off_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    store = ArrowStorage(tmp_path)
    store.write("a", b"old")

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise CheckpointError("no more")

    with pytest.raises(CheckpointError, match="no more"):
        store.write_pieces("a", broken())
    assert _files(tmp_path) == {"a": b"old"}


def test_an_object_that_breaks_off_is_not_there(elsewhere: fs.FileSystem) -> None:
    """An object store has an object once it is closed: without another name for it before."""
    store = ArrowStorage("s3a://bucket/runs")

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise CheckpointError("no more")

    elsewhere.create_dir("bucket/runs")
    with pytest.raises(CheckpointError, match="no more"):
        store.write_pieces("a", broken())
    assert store.list() == []
    assert store.write("a", b"whole") == "s3a://bucket/runs/a"
    assert store.write("a", b"replaced").endswith("/a")
    assert (store.read("a"), store.list()) == (b"replaced", ["a"])


def test_files_elsewhere_are_as_those_of_this_machine(
    elsewhere: fs.FileSystem, tmp_path: Path
) -> None:
    assert _use(ArrowStorage("mock://runs"), tmp_path / "local") == _use(
        ArrowStorage(tmp_path / "here"), tmp_path / "local"
    )


class Flat:
    """A file system without folders, as Google's: files are all that it lists."""

    def __init__(self, real: fs.FileSystem) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def get_file_info(self, asked: Any) -> Any:
        found = self._real.get_file_info(asked)
        return [i for i in found if i.is_file] if isinstance(asked, fs.FileSelector) else found


def test_folders_are_found_where_files_are_all_that_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(uri: str) -> tuple[Flat, str]:
        assert uri == "gs://bucket/?retry_limit_seconds=60"
        return Flat(made), "bucket"

    made = fs._MockFileSystem()
    made.create_dir("bucket/runs/run-1", recursive=True)
    monkeypatch.setattr(fs, "FileSystem", type("Google", (), {"from_uri": opened}))
    assert _use(ArrowStorage("gs://bucket/runs"), tmp_path / "local") == _use(
        ArrowStorage(tmp_path / "here"), tmp_path / "local"
    )


def test_what_a_killed_process_left_unfinished_is_deleted_a_day_later(
    opened: Open, tmp_path: Path
) -> None:
    old, young = (tmp_path / f".tmp-{digit * 32}" for digit in "01")
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    opened(tmp_path).sweep()
    assert (old.exists(), young.exists()) == (False, True)
    assert opened(tmp_path).list() == []


def test_of_several_who_try_at_once_one_writes_a_new_file(tmp_path: Path) -> None:
    store, wrote = ArrowStorage(tmp_path), list[bool]()
    threads = [
        threading.Thread(target=lambda: wrote.append(store.write_new("owner", b"me")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(wrote) == [False] * 7 + [True]


def test_events_are_written_without_a_jvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: fs.FileSystem
) -> None:
    """An object store shows what was closed: each flush continues in another file."""
    file = Growing(None, "mock://runs", "events")
    for data in (b"one", b"two"):
        file.write(data)
        file.flush()
    file.close()
    store = ArrowStorage("mock://runs")
    assert [store.read(name) for name in store.list()] == [b"one", b"two"]
    with pytest.raises(CheckpointError, match=r"Cannot create 'events.000001'.*such a file"):
        store.create("events.000001")
    monkeypatch.setattr(streams, "is_local", lambda uri: False)
    local = Growing(None, str(tmp_path), "events")
    local.write(b"one")
    local.flush()
    assert _files(tmp_path) == {"events.000001": b"one"}
    local.close()


def test_a_file_system_without_a_call_is_an_error_with_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ArrowStorage(tmp_path)

    def cannot(*given: object, **named: object) -> None:
        raise ArrowNotImplementedError("no such call")

    monkeypatch.setattr(store, "_infos", cannot)
    with pytest.raises(CheckpointError, match=r"Cannot list .files. in file:.*no such call"):
        store.list()
