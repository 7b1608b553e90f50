"""The live view of a run in a notebook's cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary, ref

from ..readable import all_readable
from ..training.run import Run
from .control import Steering
from .facts import RunFacts
from .feed import Feed
from .live_view import LiveView
from .model import model_of
from .picture import bundle
from .pump import PUMP, Pump


def view(run: Run) -> RunView:
    """Return a live view of a run, for the last line of a cell or to `show`.

    A run that has ended is shown as a still picture.

    Parameters
    ----------
    run : Run
        Started after ``%load_ext tos_notebook``, or with a `RunModel` among its sinks.

    Raises
    ------
    ConfigError
        The run was not watched.
    """
    return RunView(run)


_cells: WeakKeyDictionary[Run, int] = WeakKeyDictionary()
"""In which execution of a cell each run was shown last."""


def show(run: Run, again: bool = True) -> None:
    """Show a run in the cell that is executed.

    Parameters
    ----------
    run : Run
    again : bool
        Whether to do so if this cell shows it already.

    Raises
    ------
    ConfigError
        The run was not watched.
    """
    if again or _cells.get(run) != _execution():
        RunView(run).show()


def _execution() -> int:
    from IPython import get_ipython

    return getattr(get_ipython(), "execution_count", 0)


class RunView(LiveView):
    """Shows a run while it trains, and lets a person steer it; see `LiveView`.

    Parameters
    ----------
    run : Run
        With a `RunModel` among its sinks.
    pump : Pump, optional
        Feeds the view; the process's own by default.

    Raises
    ------
    ConfigError
        The run has no such sink.
    """

    def __init__(self, run: Run, pump: Pump = PUMP) -> None:
        # Loads anywidget and the front end, which only a live view needs.
        from .comms import RunControl, RunStream

        self.model = model = model_of(run)
        self._run = ref(run)
        self._facts = RunFacts(run)
        control = RunControl()
        stream = RunStream(control=control)
        self._feed = Feed(model, self._facts, stream.send)
        self._steering = Steering(self._facts, model)
        super().__init__(stream, control, pump)

    def show(self) -> None:
        """Display the view in the current cell; the end replaces it by a still picture."""
        run = self._run()
        if run is not None:
            _cells[run] = _execution()
        super().show()

    @property
    def _over(self) -> bool:
        return self.model.ended or not self._facts.active

    def _still(self) -> Mapping[str, Any]:
        return bundle(self.model, self._facts)

    def _send(self, now: float, over: bool) -> None:
        self._feed.tick(now, last=over)

    def _hello(self) -> None:
        self._feed.hello()

    def _answer(self, content: dict[str, Any]) -> Any:
        return all_readable(self._steering(content))
