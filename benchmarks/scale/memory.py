"""How much the driver's memory grows with the parameters.

Two networks, each in a driver process of its own: the slope between them is the multiple of the
parameters, what is left is the constant. In ``local`` mode the memory that workers share with the
driver counts as the driver's.

    python -m benchmarks.scale.memory [--quick]
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import tos_notebook as tos

from ..lib.harness import Row, program
from ..lib.models import network
from ..lib.ours import spark
from ..lib.peers import Peer
from ..lib.usage import resident

SMALL = (784, 10)
WIDTHS = (2000, 5000)
ROWS = 2000


STAGES = ("capture", "export", "train", "end")
"""In which the peak is looked for; at the end, what is held with the session still open."""


def take_peak() -> int:
    """Return the peak since the last call."""
    peak = resident("VmHWM")
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return peak


def driver() -> Callable[[int], tuple[int, list[int]]]:
    """Return a function of a hidden layer's width: bytes of parameters, growth in each stage.

    It counts from after the network is built, which is the user's own (TensorFlow holds about
    three times its parameters then); Spark, TensorFlow and a small run come earlier.
    """
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (ROWS, 784), np.uint8)
    y = random.integers(0, 10, ROWS)

    def train(width: int) -> tuple[int, list[int]]:
        with spark() as session:
            with tos.TrainingSession(session, network(SMALL)) as training:
                training.run((x, y), 1)
            model = network((784, width, width, 10))
            take_peak()
            before = resident("VmRSS")
            captured = tos.capture(model)
            peaks = [take_peak()]
            captured.export([(column.dtype.name, column.shape[1:]) for column in (x, y)])
            peaks.append(take_peak())
            with tos.TrainingSession(session, captured) as training:
                training.run((x, y), 2)
                peaks += [take_peak(), resident("VmRSS")]
        return captured.layout.nbytes, [peak - before for peak in peaks]

    return train


def run(quick: bool) -> list[Row]:
    """Measure two networks; quick or not is the same."""
    found = []
    for width in WIDTHS:
        with Peer(driver) as peer:
            found.append(peer.call(width))
    (small, least), (large, most) = found
    lines = {}
    for stage, low, high in zip(STAGES, least, most, strict=True):
        times = (high - low) / (large - small)
        lines[stage] = (times, low - times * small)
    parts = {
        stage: f"{times:.2f} x parameters + {constant / 1e6:.0f} MB"
        for stage, (times, constant) in lines.items()
    }
    peak = max(times for times, _ in lines.values())
    return [
        Row("driver memory held after a run / parameters", lines["end"][0], "x", "<= 4"),
        Row("driver memory at its peak / parameters", peak, "x", "<= 4", parts),
    ]


if __name__ == "__main__":
    program(run, __doc__)
