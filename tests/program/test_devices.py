"""Where a worker's program lies: on the CPU, or where TensorFlow puts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import keras
import pytest
import tensorflow as tf

from tos_notebook.errors import WorkerEnvironment
from tos_notebook.program.capture import capture
from tos_notebook.program.runner import CPU, device_for


@pytest.mark.parametrize(
    ("given", "seen", "device"), [([], 2, CPU), (["1"], 1, None), (["0", "3"], 2, None)]
)
def test_a_program_lies_on_a_gpu_where_spark_gave_one(
    monkeypatch: pytest.MonkeyPatch, given: list[str], seen: int, device: str | None
) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [object()] * seen)
    assert device_for(given) == device


@pytest.mark.parametrize("seen", [0, 4])
def test_gpus_that_tensorflow_does_not_see_or_too_many_are_told(
    monkeypatch: pytest.MonkeyPatch, seen: int
) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [object()] * seen)
    with pytest.raises(WorkerEnvironment, match=f"this task GPU 1 of .* sees {seen} GPUs there"):
        device_for(["1"])


PROGRAM = """
import sys
from pathlib import Path
from tos_notebook.program.runner import TensorFlowRunner
import tensorflow as tf
cpu, = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
for device in ("CPU:0", "CPU:1", None):
    runner = TensorFlowRunner(Path(sys.argv[1]), device)
    columns = [tf.random.stateless_normal([8, 5], [1, 2]).numpy(), tf.ones([8, 1]).numpy()]
    vectors = runner.spec.layout.vectors(runner.spec.layout.allocate())
    trained = runner.train(vectors, columns, 4)
    print(runner._module.parameters[0].device[-5:], trained.values["loss"])
"""


def test_the_device_is_where_variables_are_and_the_results_are_the_same() -> None:
    """On two devices of the same kind; this says nothing of a GPU's kernels."""
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    program = capture(model)
    archive = program.export([("float32", (5,)), ("float32", (1,))])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(archive)],
        capture_output=True, text=True, timeout=120, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [device for device, _ in lines] == ["CPU:0", "CPU:1", "CPU:0"]
    assert len({loss for _, loss in lines}) == 1
