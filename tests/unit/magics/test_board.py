"""``%tos_tensorboard`` finds the folder, and brings what is not local."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tests.support.threads import wait_for_end
from tests.unit.magics.conftest import Cells, Engine

LINE = "%tos_train --model program --data train"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    # By its name alone it would be a stand-in, which forgets the patch once it is loaded.
    notebook = importlib.import_module("tensorboard.notebook")
    monkeypatch.setattr(notebook, "start", lines.append)
    return lines


def test_the_newest_runs_folder_is_opened(
    cells: Cells, engine: Engine, opened: list[str], tmp_path: Path
) -> None:
    cells(f"{LINE} --tensorboard {tmp_path}")
    assert engine.sessions[0].started["tensorboard"] == str(tmp_path)
    assert "writes no event files. Start it with --tensorboard" in cells.fails("%tos_tensorboard")
    engine.runs[0].tensorboard = str(tmp_path)
    cells("%tos_tensorboard")
    cells("%tos_tensorboard 'a folder'")
    assert [line.split(" --reload")[0] for line in opened] == [
        f"--logdir {tmp_path}",
        f"--logdir '{Path('a folder').absolute()}'",
    ]


def test_what_is_not_local_is_copied_until_the_run_has_ended(
    cells: Cells, engine: Engine, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = [b"one", b"onetwo"]
    monkeypatch.setattr(
        "tos_notebook.training.observers.tensorboard.event_files",
        lambda sc, uri: [("a.tfevents", content[0])],
    )
    cells(LINE)
    engine.runs[0].tensorboard = "hdfs:///logs"
    output = cells("%tos_tensorboard")
    folder = Path(opened[0].split()[1])
    assert f"hdfs:///logs is copied to {folder}" in output
    content.pop(0)
    engine.runs[0].end()
    wait_for_end("tos-mirror")
    assert (folder / "a.tfevents").read_bytes() == b"onetwo"
    assert "repeat the magic" in cells("%tos_tensorboard hdfs:///logs")


def test_without_the_package_it_says_what_to_install(
    cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec

    def without(name: str, *rest: Any) -> Any:
        return None if name == "tensorboard" else find(name, *rest)

    monkeypatch.setattr("importlib.util.find_spec", without)
    assert "pip install tensorboard." in cells.fails("%tos_tensorboard /logs")
