"""What the kernel tells a view of commands; the front end's tests read the same file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.unit.telemetry.samples import started
from tests.unit.widgets.support import FACTS, FakeRun
from tests.unit.worker.support import counting_training, numbers
from tos_notebook.chaos import Slow
from tos_notebook.chaos.rules import in_words
from tos_notebook.combiners.registry import get
from tos_notebook.data.arrays import ArraySource
from tos_notebook.events import CommandAccepted, CommandApplied, Event
from tos_notebook.steering.machine import Command
from tos_notebook.steering.sync import as_sync
from tos_notebook.training.epochs import Epochs
from tos_notebook.training.options import RunOptions
from tos_notebook.training.run_plan import RunPlan
from tos_notebook.training.swaps import Swap
from tos_notebook.widgets.control import Steering
from tos_notebook.widgets.facts import RunFacts
from tos_notebook.widgets.model import RunModel

FILE = Path(__file__).parents[3] / "labextension/tests/kernel-commands.json"

ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "pause": ("pause", {}),
    "unpause": ("unpause", {}),
    "stop": ("stop", {}),
    "repartition": ("repartition", {"partitions": 8}),
    "swap combiner": ("swap combiner", {"combiner": "easgd"}),
    "swap strategy": ("swap strategy", {"strategy": "allreduce"}),
    "set": ("set", {"learning_rate": 0.01}),
    "chaos": ("chaos", {"what": "kill", "worker": 1}),
    "what is no command": ("explode", {}),
}
"""By a name in the file: command and arguments."""


def answers() -> dict[str, Any]:
    run, model = FakeRun(), RunModel()
    steering = Steering(RunFacts(run), model)  # type: ignore[arg-type]
    return {
        name: steering({"id": 1, "command": command, "arguments": arguments})
        for name, (command, arguments) in ASKED.items()
    }


def commanded() -> list[Event]:
    """Return the events of every command, of which a pause came into force."""
    training, events = counting_training()
    source: Any = ArraySource((numbers(8),), 2)
    epochs = Epochs(None, training, None, source, RunPlan(RunOptions(), 2), events.append)  # type: ignore[arg-type]
    easgd, slow = get("easgd"), Slow(5, worker=1)
    training.command(Command.PAUSE)
    training.command(Command.UNPAUSE)
    sync, rate = as_sync("bsp"), 0.01
    detail = f"learning_rate={rate}, sync={sync}"
    training.change_settings(Command.SET, detail, learning_rate=rate, sync=sync)
    training.change_settings(Command.SWAP_COMBINER, repr(easgd), combiner=easgd)
    training.change_settings(Command.CHAOS, in_words((slow,)), chaos=(slow,))
    epochs.repartition(8, None)
    method: Any = None
    epochs.swaps.ask(Swap(method, {}, "allreduce (of=gradients)"), lambda: None)
    training.command(Command.STOP)
    return events


def entry(*events: Event) -> Any:
    """Return what a view is told of one command."""
    model = RunModel()
    model(started())
    for event in events:
        model(event)
    (found,) = model.snapshot(1.0, FACTS).state["commands"]
    since = None if found["since"] is None else 1.5
    return found | {"time": 1.0, "since": since}


def entries() -> list[Any]:
    asked = [event for event in commanded() if isinstance(event, CommandAccepted)]
    applied = CommandApplied(asked[0].time, Command.PAUSE, "every worker waits")
    return [*(entry(event) for event in asked), entry(asked[0], applied)]


def test_the_front_ends_tests_are_given_what_the_kernel_sends() -> None:
    actions = RunFacts(FakeRun())()["actions"]  # type: ignore[arg-type]
    found = {"actions": actions, "answers": answers(), "entries": entries()}
    assert json.loads(FILE.read_text()) == found, json.dumps(found, indent=2)
