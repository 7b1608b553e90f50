"""nvidia-smi finds unused GPUs; here one that says what the test wants."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tos_notebook.errors import ConfigError, WorkerEnvironment
from tos_notebook.tensorflowonspark import gpu_info, util

Host = Callable[..., None]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Return what makes this a host of some GPUs, some of them busy."""

    def make(gpus: int, busy: tuple[int, ...] = ()) -> None:
        lines = [f"GPU {n}: NVIDIA X (UUID: GPU-{n})" for n in range(gpus)]
        listed, used = "\n".join(lines), "\n".join(f"GPU-{n}" for n in busy)
        program = tmp_path / "nvidia-smi"
        program.write_text(
            f'#!/bin/sh\ncase "$1" in --list-gpus) echo "{listed}";; *) echo "{used}";; esac\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    monkeypatch.setattr(gpu_info, "WAIT", 0.0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "before")
    return make


def test_nodes_of_a_host_take_different_gpus_and_share_when_there_are_too_few(host: Host) -> None:
    host(5, busy=(1,))
    assert gpu_info.is_gpu_available()
    taken = [gpu_info.get_gpus(2, node, gpu_info.AS_LIST) for node in range(3)]
    assert taken == [["0", "2"], ["3", "4"], ["0", "2"]]
    assert set(gpu_info.get_gpus(4)) == set("0,2,3,4")


def test_too_few_free_gpus_are_an_error_that_says_what_uses_them(host: Host) -> None:
    host(2, busy=(0,))
    with pytest.raises(WorkerEnvironment, match=r"(?s)has 2; 1 are free.*GPU-0"):
        gpu_info.get_gpus(2)
    with pytest.raises(ConfigError, match="'tuple'"):
        gpu_info.get_gpus(1, format="tuple")


def test_tensorflow_sees_as_many_gpus_as_asked_for_where_there_are_some(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host(4)
    nodes = ["a:1", "b:1", "a:2"]
    for number, seen in enumerate(["0", "0", "1"]):
        util.single_node_env(None, number, nodes)
        assert os.environ["CUDA_VISIBLE_DEVICES"] == seen
    util.single_node_env(0)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert not gpu_info.is_gpu_available()
    util.single_node_env(1)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
