"""A real shell, and an engine that only remembers what it was asked for."""

from __future__ import annotations

import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import tos_notebook
from tests.support.settings import SETTINGS
from tests.support.threads import wait_for_end
from tos_notebook import magics
from tos_notebook.archive.spec import FeedSpec
from tos_notebook.errors import InvalidTransition, TosError
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.program.export.base import Program
from tos_notebook.steering.links import LinkRates
from tos_notebook.steering.machine import Command
from tos_notebook.steering.shards import ShardLoad
from tos_notebook.training.options import SessionOptions, subset
from tos_notebook.training.results.settings import RunSettings
from tos_notebook.training.run import Run
from tos_notebook.widgets import RunModel


@pytest.fixture(scope="module")
def shell() -> Iterator[InteractiveShell]:
    """IPython with the extension loaded, and no history on the disk."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(config=config)
    made.extension_manager.load_extension("tos_notebook")
    yield made
    magics.unload_ipython_extension(made)
    InteractiveShell.clear_instance()


class Cells:
    """Runs cells and says what stands below them."""

    def __init__(self, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
        self.shell = shell
        self.space: dict[str, Any] = shell.user_ns
        self._capsys = capsys

    def __call__(self, text: str) -> str:
        """Run a cell that succeeds; return its output."""
        result, output = self._run(text)
        assert result.success, output
        return output

    def fails(self, text: str) -> str:
        """Run a cell that fails; return its output."""
        result, output = self._run(text)
        assert not result.success, output
        return output

    def _run(self, text: str) -> tuple[Any, str]:
        self._capsys.readouterr()
        result = self.shell.run_cell(text)
        captured = self._capsys.readouterr()
        return result, captured.out + captured.err


@pytest.fixture
def cells(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cells]:
    """Run cells in a namespace of the test's own, in a process that has not trained before."""
    monkeypatch.setattr("tos_notebook.training.factory._runs", [])
    before = dict(shell.user_ns)
    yield Cells(shell, capsys)
    shell.user_ns.clear()
    shell.user_ns.update(before)


class FakeProgram(Program):
    """A captured program without TensorFlow."""

    kind = "keras"
    feeds = (FeedSpec("x", "float32", (4,)), FeedSpec("y", None, None))
    layout = Layout([ParameterSpec("w", (4, 2), "float32"), ParameterSpec("b", (2,), "float32")])
    has_learning_rate = True
    _export = read = write = _evaluate = None  # type: ignore[assignment]


class FakeRun:
    """A run that lasts until a test ends it."""

    def __init__(self, number: int, options: SessionOptions | None = None) -> None:
        self.number, self.run_id = number, f"run-{number}"
        self.name: str | None = None
        self._options = options or SessionOptions().checked()
        self.state, self.staleness = "running", 1.5
        self.asked: list[Any] = []
        self.error: TosError | None = None
        self.waiting: Callable[[], None] = lambda: None
        self.has_learning_rate = True
        self.commands = frozenset(Command)
        self.rules: tuple[Any, ...] = ()
        self.waits_for: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()
        self.rows_skipped = self._left_out = 0
        self.reason: str | None = None
        self.advice: str | None = None
        self.links = LinkRates()
        self.shards: tuple[ShardLoad, ...] = ()
        self.pending: tuple[str, ...] = ()
        self.lost: tuple[str, ...] = ()
        self.tensorboard: str | None = None
        self.program: Any = None
        self._done = threading.Event()

    @property
    def active(self) -> bool:
        return not self._done.is_set()

    @property
    def status(self) -> Any:
        return SimpleNamespace(
            run=self.run_id, state=self.state, epoch=2, epochs=5, milestones=34, samples=1200,
            samples_per_second=432.1, loss=0.25, staleness=self.staleness, elapsed=3.0,
            waits_for=self.waits_for, notes=self.notes, rows_skipped=self.rows_skipped,
            reason=self.reason, validation={"accuracy": 0.8754},
            advice=self.advice, links=self.links, shards=self.shards,
            pending=self.pending, lost=self.lost, validations=5,
            validations_left_out=self._left_out,
        )  # fmt: skip

    @property
    def settings(self) -> RunSettings:
        options = self._options
        strategy = options.strategy.settings(options.combiner, options.codec)
        own = {n: v for n, v in strategy.shown().items() if n not in ("codec", "combiner")}
        return replace(
            SETTINGS, strategy=options.strategy.name, combiner=options.combiner, own=own,
            codec=str(options.codec), sync=str(options.sync), batch_size=options.batch_size,
            sync_interval=options.sync_interval, learning_rate=0.1, chaos=self.rules,
            lockstep=strategy.lockstep,
        )  # fmt: skip

    def end(self, state: str = "finished", error: TosError | None = None) -> None:
        self.state, self.error = state, error
        self._done.set()

    def wait(self, timeout: float | None = None) -> FakeRun:
        if threading.current_thread() is threading.main_thread():
            self.waiting()
        assert self._done.wait(10), "nobody ended the run"
        if self.error is not None:
            raise self.error
        return self

    def stop(self, timeout: float = 30) -> FakeRun:
        if not self.active:
            raise InvalidTransition(self.state, "stop", "it has ended.")
        self.asked.append("stop")
        self.end("stopped")
        return self

    def pause(self) -> None:
        self.asked.append("pause")

    def unpause(self) -> None:
        raise InvalidTransition(self.state, "unpause", "it is not paused.")

    def repartition(self, partitions: int) -> None:
        self.asked.append(partitions)

    def swap_combiner(self, combiner: Any) -> None:
        self.asked.append(combiner)

    def swap_strategy(self, strategy: Any, **options: Any) -> None:
        inspect.signature(Run.swap_strategy).bind(self, strategy, **options)
        self.asked.append((strategy, options))

    def chaos(self, *rules: Any) -> None:
        self.asked.append(rules)
        self.rules = rules

    def set(self, **values: float) -> None:
        inspect.signature(Run.set).bind(self, **values)
        self.asked.append(values)


class Engine:
    """What the magics made of their options."""

    def __init__(self) -> None:
        self.runs: list[FakeRun] = []
        self.sessions: list[Any] = []
        self.shown: list[Any] = []
        self.settled: list[Any] = []
        self.connected: list[Any] = []
        self.on_start: Callable[[FakeRun], None] = lambda run: None

    def session(self, spark: Any, program: Any, **options: Any) -> Any:
        checked = SessionOptions(**subset(SessionOptions, options)).checked()
        made = SimpleNamespace(
            spark=spark, program=program, options=options, checked=checked, closed=False
        )
        made.close = lambda: setattr(made, "closed", True)
        made.start = lambda data, epochs=1, **more: self.begin(made, data, epochs, more)
        self.sessions.append(made)
        return made

    def begin(self, session: Any, data: Any, epochs: int, options: dict[str, Any]) -> FakeRun:
        session.data, session.epochs, session.started = data, epochs, options
        # That of a resumed run has none of its own.
        run = FakeRun(len(self.runs) + 1, getattr(session, "checked", None))
        run.program = getattr(session, "program", None)
        run.name = options.get("name")
        self.runs.append(run)
        self.on_start(run)
        return run

    def connect(self, master: Any = None, **options: Any) -> Any:
        self.connected.append((master, options))
        return fake_spark()

    def widgets(self) -> ModuleType:
        module = ModuleType("tos_notebook.widgets")

        def view(run: Any) -> Any:
            return SimpleNamespace(
                show=lambda: self.shown.append(run),
                wait=lambda timeout: self.settled.append(run),
            )

        def result(run: Any) -> str:
            return f"result of run {run.number}"

        vars(module).update(view=view, Result=result, RunModel=RunModel)
        return module


def fake_spark() -> Any:
    """Something that the magics take for Spark."""
    return SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]", _jsc=object()))


@pytest.fixture
def engine(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Put the fake engine behind the magics."""
    made = Engine()
    # Modules that import the session's class by name have to do so before it is replaced.
    importlib.import_module("tos_notebook.training.saved")
    widgets = made.widgets()
    monkeypatch.delenv("TOS_NONINTERACTIVE", raising=False)
    monkeypatch.setitem(sys.modules, "tos_notebook.widgets", widgets)
    monkeypatch.setattr(tos_notebook, "widgets", widgets, raising=False)
    monkeypatch.setattr("tos_notebook.training.session.TrainingSession", made.session)
    monkeypatch.setattr("tos_notebook.training.factory.runs", lambda: made.runs)
    monkeypatch.setattr("tos_notebook.magics.connect.Connection.ensure", lambda *_: fake_spark())
    monkeypatch.setattr("tos_notebook.magics.connect.Connection.starts", lambda *_: False)
    x, y = np.zeros((8, 4)), np.zeros(8)
    cells.space.update(program=FakeProgram(), train=(x, y), x=x, y=y)
    yield made
    for run in made.runs:
        if run.active:
            run.end()
    assert not [t for t in threading.enumerate() if t.name.startswith("tos-")]


class Cluster:
    """A fake of `connect` and of what is asked of a context."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.shipped: list[bool] = []
        self.warmed: list[Any] = []
        self.error: Exception | None = None
        self.release = threading.Event()
        self.release.set()
        self.context = self.new_context()

    @staticmethod
    def new_context() -> Any:
        named = {"master": "local[2]", "appName": "notebook", "version": "4.0.1"}
        return SimpleNamespace(**named, startTime=0, uiWebUrl=None, _jsc=object())

    def connect(self, master: Any = None, *, config: Any, warm_up: bool, ship_package: bool) -> Any:
        assert not warm_up
        self.calls.append((master, config))
        self.shipped.append(ship_package)
        return SimpleNamespace(sparkContext=self.context)

    def warm_up(self, sc: Any, timeout: float) -> None:
        self.warmed.append(sc)
        assert self.release.wait(10)
        if self.error is not None:
            raise self.error


@pytest.fixture
def cluster(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Have the magics know of no Spark yet, and connect to a fake one."""
    made = Cluster()
    cells.shell.extension_manager.reload_extension("tos_notebook")
    monkeypatch.setattr("tos_notebook.cluster.connect.connect", made.connect)
    monkeypatch.setattr("tos_notebook.cluster.environment.warm_up", made.warm_up)
    monkeypatch.setattr("tos_notebook.cluster.summary.slots", lambda sc: 2)
    monkeypatch.setattr("tos_notebook.cluster.summary.task_cores", lambda sc: 1)
    yield made
    wait_for_end("tos-warm-up")
