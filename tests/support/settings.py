"""The settings of what stands for a run in tests; `replace` makes others of them."""

from __future__ import annotations

from dataclasses import replace

from tos_notebook.combiners.registry import get
from tos_notebook.training.results.settings import RunSettings

SETTINGS = RunSettings(
    strategy="ps",
    lockstep=False,
    combiner=get("dynsgd"),
    codec="fp32",
    sync="asp",
    sync_interval=10,
    learning_rate=None,
    batch_size=100,
    chaos=(),
    own={},
)

TOGETHER = replace(
    SETTINGS,
    strategy="allreduce",
    lockstep=True,
    combiner=None,
    sync="bsp",
    sync_interval=1,
    own={"of": "gradients", "algorithm": "ring", "chosen_by": "auto"},
)
"""Those of workers that make each step together."""

SAMPLED = replace(
    TOGETHER, strategy="treeaggregate", sync_interval=None, own={"step_size": 1.0, "fraction": 1.0}
)
"""Those of workers that exchange once in an epoch."""
