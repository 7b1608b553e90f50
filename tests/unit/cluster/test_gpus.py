"""A task lets TensorFlow see the GPUs that Spark gave it, and no others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tos_notebook.cluster.gpus import VISIBLE, Gpus
from tos_notebook.errors import WorkerEnvironment


def context(*addresses: str, **others: Any) -> Any:
    """Return a Spark task's context, as far as its resources go."""
    resources = {"gpu": SimpleNamespace(name="gpu", addresses=list(addresses))} if addresses else {}
    return SimpleNamespace(resources=lambda: resources | others)


@pytest.mark.parametrize(
    ("addresses", "visible"),
    [(["1"], "1"), (["3", "0"], "0,3"), (["GPU-8932f937"], "GPU-8932f937")],
    ids=["one", "several", "by UUID"],
)
def test_a_task_sees_its_own_gpus_only(addresses: list[str], visible: str) -> None:
    environment = {VISIBLE: "0,1,2,3"}
    assert Gpus(environment).claim(context(*addresses)) == tuple(visible.split(","))
    assert environment[VISIBLE] == visible


def test_gpus_are_counted_as_spark_counts_them_and_their_memory_is_taken_as_needed() -> None:
    environment: dict[str, str] = {}
    Gpus(environment).claim(context("1"))
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert environment["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    own = {"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "TF_FORCE_GPU_ALLOW_GROWTH": "false"}
    environment = dict(own)
    Gpus(environment).claim(context("1"))
    assert environment == {**own, VISIBLE: "1"}


def test_without_gpus_of_sparks_nothing_changes() -> None:
    environment = {VISIBLE: "2"}
    gpus = Gpus(environment)
    assert gpus.claim(context()) == gpus.claim(context(fpga=SimpleNamespace(addresses=["0"]))) == ()
    assert environment == {VISIBLE: "2"}


def test_a_reused_process_serves_tasks_of_its_own_gpus_only() -> None:
    environment: dict[str, str] = {}
    gpus = Gpus(environment)
    gpus.claim(context("0", "1"))
    assert gpus.claim(context("1", "0")) == ("0", "1")
    for other, text in ((context("1"), "GPU 1"), (context(), "no GPU")):
        with pytest.raises(
            WorkerEnvironment, match=rf"set up for GPU 0, 1, .* a task of {text}\..*reuse=false"
        ):
            gpus.claim(other)
    assert environment[VISIBLE] == "0,1"


def test_a_process_that_began_without_a_gpu_gets_none() -> None:
    """TensorFlow has looked at all of the machine's GPUs by then, or may have."""
    gpus = Gpus({})
    gpus.claim(context())
    with pytest.raises(WorkerEnvironment, match="set up for no GPU"):
        gpus.claim(context("0"))
