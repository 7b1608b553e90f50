"""A run's parameters while strategies take turns: one layout outside, whatever each trains."""

from __future__ import annotations

from tos_notebook.combiners import Downpour
from tos_notebook.coordination.present import PresentParameters
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.allreduce.parameters import StepParameters
from tos_notebook.strategies.ps.center import Center

MODEL = Layout([ParameterSpec("w", (3,), "float32")])
SCALED = Layout([*MODEL.specs, ParameterSpec("scale", (), "float32", False, False)])


def filled(layout: Layout, value: float) -> object:
    buffer = layout.allocate()
    for tensor in layout.tensors(buffer).values():
        tensor[...] = value
    return buffer


def test_readers_and_writers_keep_the_layout_that_they_began_with() -> None:
    """An evaluation, or a callback, may be under way when another strategy takes over."""
    center = Center(MODEL, filled(MODEL, 1.0), Downpour())  # type: ignore[arg-type]
    present = PresentParameters(center)
    step = StepParameters(SCALED, filled(SCALED, 2.0))  # type: ignore[arg-type]
    step.version, step.torn = 7, "They are torn."
    present.change_hands(step)
    buffer, version = present.read()
    assert (version, present.version, present.torn) == (7, 7, "They are torn.")
    assert MODEL.tensors(buffer)["w"].tolist() == [2.0] * 3
    present.load(filled(MODEL, 5.0))  # type: ignore[arg-type]
    found = SCALED.tensors(step.read()[0])
    assert (found["w"].tolist(), float(found["scale"])) == ([5.0] * 3, 2.0)
    assert MODEL.tensors(present.read(buffer)[0])["w"].tolist() == [5.0] * 3
