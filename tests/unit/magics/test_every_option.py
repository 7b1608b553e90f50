"""Every training option can be given to `fit`, `start`, `%%tos_train` and `tos.resume`.

The test goes through the one list of options, gives each to each door, and looks at what a run is
about to be made of. Few are kept by a resumed run, which says so in a sentence.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest

import tos_notebook as tos
from tests.unit.magics.conftest import Cells, Engine, FakeRun
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.combiners import as_combiner
from tos_notebook.errors import ConfigError
from tos_notebook.magics.parsers import PARSERS, flag
from tos_notebook.steering.sync import as_sync
from tos_notebook.steering.trigger import as_trigger
from tos_notebook.strategies.registry import as_strategy
from tos_notebook.telemetry.progress import ProgressLine
from tos_notebook.training import launching
from tos_notebook.training.changed import COMMANDED
from tos_notebook.training.observers.build import Observers
from tos_notebook.training.options import (
    OPTIONS,
    ObserverOptions,
    RunOptions,
    SessionOptions,
    options_of,
)
from tos_notebook.training.options.observers import as_best, as_mlflow
from tos_notebook.training.session import TrainingSession

X, Y = np.arange(48, dtype=np.float32), np.arange(48, dtype=np.float32) % 2
FRAME = pd.DataFrame({"a": X, "b": Y})
LAYOUT = tos.partitioners.RandomPartitioner(2)


def heard(event: Any) -> None:
    """Take an event."""


VALUES: dict[str, Any] = {
    "strategy": "allreduce:parameters", "combiner": "easgd", "sync_interval": 7, "sync": "ssp:2",
    "codec": "int8", "batch_size": 5, "non_finite": "skip", "optimizer_state": "reset",
    "epochs": 6, "shuffle": "partitions", "repartition_every": 2, "partitions": 3,
    "partitioner": LAYOUT, "participation": 0.5, "seed": 3, "validation_split": 0.25,
    "stall_timeout": 9.0, "worker_timeout": 300.0, "checkpoint_every": "40s",
    "max_checkpoints": 5, "name": "wide", "validation_data": (X, Y), "validation_every": 20,
    "validation_on": "executors", "keep_best": "val_loss",
    "callbacks": [keras.callbacks.Callback()],
    "on_callback_error": "raise", "learning_rate": 0.05, "stop_when": "steps >= 9",
    "tensorboard": "/tmp/events", "histograms": True, "mlflow": "digits", "sinks": [heard],
    "features": "a", "label": "b", "class_weight": {0: 2.0}, "checkpoint_dir": "folder",
    "wait": True, "verbose": True,
}  # fmt: skip
"""A value of each that differs from its default."""

VALIDATED = {"validation_data": (X, Y)}
SAVED = {"checkpoint_dir": "folder"}
ALONG: dict[str, dict[str, Any]] = {
    "validation_every": VALIDATED,
    "validation_on": VALIDATED,
    "keep_best": VALIDATED,
    "checkpoint_every": SAVED,
    "max_checkpoints": SAVED,
    "features": {"label": "b"},
    "label": {"features": "a"},
}
"""What must be given with some."""

AS: dict[str, Callable[..., Any]] = {
    "strategy": as_strategy,
    "combiner": as_combiner,
    "sync": as_sync,
    "codec": as_codecs,
    "checkpoint_every": lambda value: as_trigger("checkpoint_every", value),
    "validation_every": lambda value: as_trigger("validation_every", value),
    "keep_best": lambda value: as_best("keep_best", value),
    "mlflow": lambda value: as_mlflow("mlflow", value),
}


def model() -> Any:
    made = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    made.compile(keras.optimizers.SGD(0.01, momentum=0.9), "mse")
    return made


@dataclass
class Made:
    """What a run was about to be made of."""

    factory: Any
    request: Any
    beside: ObserverOptions
    wanted: Mapping[str, Any] | None
    run: FakeRun
    waited: list[bool] = field(default_factory=list)
    shown: list[Any] = field(default_factory=list)

    def value(self, name: str) -> Any:
        """Return what became of an option."""
        request, factory = self.request, self.factory
        if self.wanted is not None and name in COMMANDED:
            return self.wanted[name]
        if name in options_of(SessionOptions):
            return getattr(factory.options, name)
        if name in options_of(ObserverOptions):
            return getattr(self.beside, name)
        special: dict[str, Callable[[], Any]] = {
            "partitions": lambda: request.first.partitions,
            "partitioner": lambda: request.reached.layout.partitioner,
            "features": lambda: "a" if len(request.first.columns) == 2 else None,
            "label": lambda: "b" if len(request.first.columns) == 2 else None,
            "class_weight": lambda: factory.program._class_weight,
            "checkpoint_dir": lambda: Path(factory.storage.uri).name,
            "wait": lambda: bool(self.waited),
            "verbose": lambda: any(
                isinstance(sink, ProgressLine) for sink in self.beside.sinks
            ) or self.run in self.shown,
        }  # fmt: skip
        if name in special:
            return special[name]()
        assert name in options_of(RunOptions)
        return getattr(request.plan.options, name)


def same(name: str, found: Any, given: Any) -> bool:
    if isinstance(given, tuple):
        return all(a is b for a, b in zip(found, given, strict=True))
    if name == "sinks":
        return given[0] in found
    read = AS.get(name, lambda value: value)
    return bool(str(read(found)) == str(read(given)))


class Doors:
    """Gives options to each door; a run is recorded, and not trained."""

    def __init__(self, spark: Any, saved: str, cells: Cells, folder: Path) -> None:
        self.spark, self.saved, self.cells, self.folder = spark, saved, cells, folder
        self.made: list[Made] = []

    def fit(self, data: Any, given: dict[str, Any]) -> None:
        tos.fit(model(), data, **{"wait": False, "verbose": False, "spark": self.spark, **given})

    def start(self, data: Any, given: dict[str, Any]) -> None:
        with tos.TrainingSession(self.spark, model()) as session:
            session.start(data, **given)

    def resume(self, data: Any, given: dict[str, Any]) -> None:
        own = {"program": model(), "spark": self.spark, "epochs": 4}
        tos.resume(self.saved, data if data is FRAME else None, **own | given)

    def tos_train(self, data: Any, given: dict[str, Any]) -> None:
        self.cells.space.update(model=model(), data=data)
        self.cells(f"%tos_train --model model --data data {self.flags(given)}")

    def tos_resume(self, data: Any, given: dict[str, Any]) -> None:
        self.cells.space.update(model=model(), data=data)
        also = "--data data" if data is FRAME else ""
        options = self.flags({"epochs": 4} | given)
        line = f"%tos_resume {self.saved} --model model {also} {options}"
        if any(OPTIONS[name].kept for name in given):
            text = self.cells.fails(line).partition("--")[2]
            raise ConfigError(text.replace("-", "_", text.partition(":")[0].count("-")))
        self.cells(line)

    def flags(self, given: dict[str, Any]) -> str:
        """Return options as a cell has them; objects by their variables."""
        found = []
        for name, value in given.items():
            if value is True:
                found.append(flag(name))
                continue
            plain = isinstance(value, str | int | float)
            if not plain:
                self.cells.space[f"my_{name}"] = value
            if name == "validation_data":
                self.cells.space.update(vx=value[0], vy=value[1])
            text = str(value) if plain else f"my_{name}"
            found += [flag(name), f"'{'vx,vy' if name == 'validation_data' else text}'"]
        return " ".join(found)


DOORS = ("fit", "start", "resume", "tos_train", "tos_resume")


@pytest.fixture(scope="module")
def saved(spark_context: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a run of one epoch."""
    folder = str(tmp_path_factory.mktemp("runs"))
    with tos.TrainingSession(spark_context, model(), checkpoint_dir=folder) as session:
        uri = session.run((X, Y), checkpoint_every=1).uri
    assert uri is not None
    return uri


@pytest.fixture
def doors(
    spark_context: Any, saved: str, cells: Cells, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Doors]:
    engine, made = Engine(), Doors(spark_context, saved, cells, tmp_path)
    beside: list[ObserverOptions] = []
    sessions: list[TrainingSession] = []

    def build(sc: Any, program: Any, ask: Any, options: ObserverOptions) -> Observers:
        beside.append(options)
        rate = options.learning_rate
        return Observers((), rate if isinstance(rate, float) else None, tuple(options.sinks))

    def launch(
        session: TrainingSession, factory: Any, request: Any, observers: Any, first: Any = None
    ) -> FakeRun:
        run = FakeRun(len(made.made) + 1, factory.options)
        run.program, wanted = factory.program, getattr(first, "keywords", {}).get("wanted")
        record = Made(factory, request, beside[-1], wanted, run, shown=engine.shown)

        def waiting() -> None:
            record.waited.append(True)
            run.end()

        run.waiting = waiting
        vars(run)["show"] = lambda: engine.shown.append(run)
        made.made.append(record)
        sessions.append(session)
        return run

    monkeypatch.setattr(TrainingSession, "_launch", launch)
    monkeypatch.setattr(launching, "build", build)
    monkeypatch.setattr("tos_notebook.magics.connect.Connection.ensure", lambda *_: spark_context)
    monkeypatch.setattr("tos_notebook.magics.connect.Connection.starts", lambda *_: False)
    monkeypatch.setattr("tos_notebook.magics.connect.Connection.raise_once", lambda _: None)
    monkeypatch.setattr(tos, "widgets", engine.widgets(), raising=False)
    monkeypatch.setitem(sys.modules, "tos_notebook.widgets", tos.widgets)
    monkeypatch.delenv("TOS_NONINTERACTIVE", raising=False)
    yield made
    for session in sessions:
        session.close()


def test_the_list_has_a_value_for_every_option() -> None:
    assert VALUES.keys() == OPTIONS.keys()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_can_be_given_to_every_door(doors: Doors, name: str, door: str) -> None:
    option, value = OPTIONS[name], VALUES[name]
    given = {name: value, **ALONG.get(name, {})}
    resumes = door.endswith("resume")
    if resumes and not option.kept:
        given.pop("checkpoint_dir", None)
    folder = {"checkpoint_dir": str(doors.folder / "folder")}
    given |= folder if "checkpoint_dir" in given else {}
    data = FRAME if "features" in given else (X, Y)
    if resumes and option.kept:
        with pytest.raises(ConfigError) as refused:
            getattr(doors, door)(data, given)
        said = f"{name}: a resumed run keeps the one that it has, {option.kept}. To train on with"
        assert str(refused.value).startswith(said)
        return
    getattr(doors, door)(data, given)
    (made,) = doors.made
    assert same(name, made.value(name), value), (made.value(name), value)


def test_the_cell_has_a_flag_for_every_option() -> None:
    assert {flag(name) for name in OPTIONS} <= {*PARSERS["tos_train"].flags}


WRONG: dict[str, Any] = {
    "strategy": "allreduc", "combiner": "easgdd", "sync_interval": 0, "sync": "spp:3",
    "codec": "int9", "batch_size": 0, "non_finite": "ignore", "optimizer_state": "forget",
    "epochs": 0, "shuffle": "rows", "repartition_every": 0, "partitions": 0,
    "participation": 1.5, "seed": -1, "validation_split": 1.5, "stall_timeout": 0,
    "worker_timeout": 0, "checkpoint_every": "often", "max_checkpoints": 0, "name": "12",
    "validation_every": "soon", "validation_on": "moon", "keep_best": "loss",
    "on_callback_error": "disable", "learning_rate": -1.0, "stop_when": "lss < 1 and",
    "class_weight": {0: -1.0},
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_refused_in_the_same_words_at_each_door(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """None of the doors has begun with anything by then: there is no Spark here."""
    option, given = OPTIONS[name], {**ALONG.get(name, {}), name: WRONG[name]}
    resumed = {key: value for key, value in given.items() if key != "checkpoint_dir"}
    calls: dict[str, Callable[[], Any]] = {
        "fit": lambda: tos.fit(None, (), verbose=False, **given),
        "start": lambda: TrainingSession.start(
            SimpleNamespace(_asked=SessionOptions()), (), **given
        ),  # type: ignore[arg-type]
    }
    if not option.kept:
        calls["resume"] = lambda: tos.resume("file:///none", **resumed)
    for place in ("surface.connect", "training.resume.given_spark"):
        monkeypatch.setattr(f"tos_notebook.{place}", lambda *_, **__: pytest.fail("It starts."))
    said = set()
    for call in calls.values():
        with pytest.raises(tos.errors.TosError) as refused:
            call()
        said.add(str(refused.value))
    assert len(said) == 1
