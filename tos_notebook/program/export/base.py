"""The driver's side of a captured program."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

from ...archive.spec import FeedSpec, ProgramSpec
from ...blocks.block import ColumnSpec
from ...common import temporary
from ...common.arrays import Array, Buffer
from ...common.checks import at_least_one
from ...common.told import told
from ...data.chosen import chosen
from ...data.datasets import is_dataset, rows_of
from ...data.parts import named_arrays
from ...data.tables import TableColumns
from ...errors import ConfigError, UnsupportedProgram
from ...inference.arrays import evaluable
from ...inference.predictor import BATCH_SIZE, Predictor
from ...inference.servable import HeldRows
from ...layout import Layout

ColumnType = tuple[str, tuple[int, ...]]
"""dtype and shape, without the row dimension, of one column of data."""


SAVED = ("keras", "savedmodel", "checkpoint")
"""The formats of TensorFlow that some programs can be saved in."""


class Program(Predictor):
    """A captured model, which knows its parameters and exports itself for given data.

    Attributes
    ----------
    kind : str
    feeds : tuple of FeedSpec
    layout : Layout
    optimizer_state : tuple of str
        Names of the tensors that the optimizer keeps for the parameters, on each worker.
    gradients : bool
        Whether workers only compute gradients, and the optimizer makes its step elsewhere.
    sessions : bool
        Whether sessions train the graph itself, on variables of TensorFlow's servers.
    """

    kind: str
    feeds: tuple[FeedSpec, ...]
    layout: Layout
    optimizer_state: tuple[str, ...] = ()
    gradients: bool = False
    sessions: bool = False

    def __init__(self) -> None:
        self._exported: dict[tuple[Any, ...], Path] = {}
        self._folder = temporary.directory("tos-program-")
        self._twin: Program | None = None

    def for_gradients(self) -> Program:
        """Return the program of the same model whose workers only compute gradients.

        Its layout holds more where gradients need what the update changes: the scale of a loss.

        Raises
        ------
        UnsupportedProgram
            A graph has no place to cut. Other programs say so when they are exported.
        """
        if self.gradients:
            return self
        if self._twin is None:
            twin = copy(self)
            Program.__init__(twin)
            twin.gradients = True
            twin._lay_out()
            self._twin, twin._twin = twin, self
        return self._twin

    def for_steps(self) -> Program:
        """Return the program of the same model whose workers make the optimizer's steps.

        Raises
        ------
        UnsupportedProgram
            The program was saved when workers only computed gradients, and there is no model.
        """
        if self.gradients and self._twin is not None:
            return self._twin
        return self

    def for_sessions(self) -> Program:
        """Return the program of the same graph, which sessions train on TensorFlow's servers.

        Raises
        ------
        UnsupportedProgram
            It is not a TF1-style graph.
        """
        raise UnsupportedProgram(
            "Expected a captured TF1 graph for strategy 'tensorflow', which runs its train "
            f"operation in sessions; got a {self.kind} program. Train it with "
            "strategy='allreduce'."
        )

    def weighted(self, class_weight: Mapping[int, float]) -> Program:
        """Return the program of the same model in whose loss classes count differently.

        Parameters
        ----------
        class_weight : mapping of int to float
            By class, from 0; those that are not named count 1.

        Raises
        ------
        ConfigError
            It is no Keras model.
        CaptureError
            The model has no such classes, or several outputs.
        """
        raise ConfigError(
            f"class_weight: expected a Keras model with it, got a {self.kind} program. Let the "
            "rows of each class count in its own loss."
        )

    @property
    def rows_of_batch(self) -> int | None:
        """How many rows every batch must have; None for any number."""
        return None

    def with_labels(self, given: bool) -> None:
        """Take records with labels or without, where the model trains with either.

        Parameters
        ----------
        given : bool
            Whether the data of the next run have labels.
        """

    def _lay_out(self) -> None:
        """Set `layout`."""

    def export(self, columns: Sequence[ColumnType]) -> Path:
        """Return the portable program for data of these columns; traced once for each.

        It is traced again when values have changed that it holds, and that are not synchronised.

        Parameters
        ----------
        columns : sequence of (dtype, shape)
            One for each feed, the row dimension left out.

        Returns
        -------
        Path
            An archive, as `export.packing` writes it, that lasts as long as this object.

        Raises
        ------
        UnsupportedProgram
            Something in the program cannot run on an executor, or its step has no place to cut.
        """
        key = tuple(columns), self.frozen, self._adapted
        if key not in self._exported:
            target = Path(self._folder.name, f"{len(self._exported)}.zip")
            self._export(key[0], target)
            self._exported[key] = target
        return self._exported[key]

    @abstractmethod
    def _export(self, columns: tuple[ColumnType, ...], target: Path) -> None: ...

    def _spec(self, outputs: tuple[str, ...]) -> ProgramSpec:
        return ProgramSpec(
            self.kind,
            self.feeds,
            self.layout,
            outputs,
            self.has_learning_rate,
            self.optimizer_state,
            self.frozen,
            self.gradients,
            self.scales_loss,
            self.sessions,
        )

    @property
    def frozen(self) -> str:
        """Digest of the values that are exported, but not synchronised; empty for none."""
        return ""

    @property
    def _adapted(self) -> tuple[Any, ...]:
        """What layers were adapted to, which they may replace by something else."""
        return ()

    @property
    @abstractmethod
    def has_learning_rate(self) -> bool:
        """Whether the learning rate is a variable, which can be set while training."""

    @property
    def learning_rate(self) -> float | None:
        """The learning rate as it is now; None if it is unknown, or changes by itself."""
        return None

    @property
    def scales_loss(self) -> bool:
        """See `ProgramSpec.scales_loss`."""
        return False

    @abstractmethod
    def read(self) -> Buffer:
        """Return the parameters' present values, packed by `layout`."""

    @abstractmethod
    def write(self, buffer: Buffer) -> None:
        """Set the parameters of the user's own model or session."""

    @property
    def rows(self) -> Any:
        """Rows of served tables that were trained before; None for none."""
        return None

    def find_rows(self, held: HeldRows) -> None:
        """Let the model take rows of served tables from a run when it predicts in this process."""

    def finish(self) -> bool:
        """Make what was written last final, when a run has ended; return whether that changed it.

        Such as averages of the weights that take the weights' place.
        """
        return False

    @told("Evaluating the rows", "evaluate")
    def evaluate(
        self, data: Any, batch_size: int = BATCH_SIZE, *, features: Any = None, label: Any = None
    ) -> Mapping[str, float]:
        """Return loss and metrics over rows, with the user's model as it is, without training.

        Each row counts by its weight, or as one, however rows are spread.

        Parameters
        ----------
        data : RDD, DataFrame, columns of one, or sequence of ndarray, one per feed
            As for training; dictionaries of arrays go by name. Arrays, lists and tables of pandas
            are evaluated here. All else is evaluated on the executors, where each partition adds up
            the variables of the model's metrics. The results are those of Keras for all metrics
            whose variables add up, like Keras's own.
        batch_size : int
        features, label : str, sequence of str, or mapping of str to str, optional
            Columns of a DataFrame, as for training.

        Raises
        ------
        DataError, ShapeMismatch
            The data do not fit the program, or have no rows.
        ConfigError
            Arrays are given one by one, or `batch_size` is below 1.
        """
        if hasattr(batch_size, "__array__") or isinstance(batch_size, list | tuple):
            raise ConfigError(
                "evaluate: expected the arrays as one tuple, such as program.evaluate((x, y)); got "
                "them one by one."
            )
        at_least_one("batch_size", batch_size)
        data = chosen(data, features, label)
        if is_dataset(data):
            data = rows_of(data, self.feeds)
        if isinstance(data, TableColumns):
            data = data.arrays(self.feeds)
        data = named_arrays(data, self.feeds)
        if isinstance(data, list | tuple):
            return self._evaluate(evaluable(data, self.feeds), batch_size)
        from ...inference.evaluate import evaluate

        return evaluate(self, data, batch_size)

    @abstractmethod
    def _evaluate(self, columns: Sequence[Array], batch_size: int) -> Mapping[str, float]: ...

    def require_measuring(self, columns: Sequence[ColumnSpec] = ()) -> None:
        """Refuse rows to measure, if the program cannot.

        Parameters
        ----------
        columns : sequence of ColumnSpec, optional
            Those of the rows; with them a step of the user's own is tried, too.

        Raises
        ------
        UnsupportedProgram
        """

    def pack_measure(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """Pack what measures rows; see `tos_notebook.program.export.serving.pack_measure`."""
        raise NotImplementedError

    def measured_names(self, trained: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return what `evaluate` gives where a training step gives `trained`; None if unknown."""
        return trained

    def expected_names(self) -> tuple[str, ...] | None:
        """Return what a training step gives, as far as that is known before it is traced."""
        return None

    def measured(self, sums: Sequence[Array]) -> Mapping[str, float]:
        """Return loss and metrics of the sums over all rows.

        Parameters
        ----------
        sums : sequence of ndarray, float64
            Of each variable of the state that `pack_measure` packed.
        """
        raise NotImplementedError

    @property
    def inputs(self) -> tuple[FeedSpec, ...]:
        """The inputs of a prediction; see `Predictor.inputs`."""
        raise UnsupportedProgram(
            f"A {self.kind} program without its model predicts nothing. Give it: "
            "tos.resume(uri, program=model)."
        )

    def serve(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """See `Predictor.serve`."""
        raise NotImplementedError

    @property
    def model(self) -> Any:
        """The user's Keras model; None if the program has none."""
        return None

    @property
    def drawing(self) -> tuple[str, bytes] | None:
        """The graph, to be drawn: ``keras`` and JSON, or ``graph`` and a GraphDef."""
        return None

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats of `SAVED` that `save` supports."""
        return tuple(self._writers)

    @property
    def _writers(self) -> Mapping[str, Callable[[Path], None]]:
        """By format, what writes the user's model."""
        return {}

    def save(self, chosen: str, target: Path) -> None:
        """Write the user's model as it is.

        Parameters
        ----------
        chosen : str
            One of `formats`.
        target : Path
            Becomes a file for ``keras``, else a folder.
        """
        self._writers[chosen](target)

    @property
    def record(self) -> Mapping[str, tuple[FeedSpec, ...]]:
        """What a record's fields are for, in their order."""
        return {"feeds": self.feeds}

    @property
    def summary(self) -> str:
        """Kind, size and feeds in a few words."""
        layout = self.layout.of_model
        tensors = "tensor" if len(layout) == 1 else "tensors"
        feeds = ", ".join(feed.name for feed in self.feeds)
        kept = len(self.optimizer_state)
        state = f", {kept} of optimizer state" if kept else ""
        size = f"{layout.size:,} parameters in {len(layout)} {tensors}"
        return f"{self.kind}, {size}{state}, fed {feeds}"

    def __repr__(self) -> str:
        feeds = ", ".join(f.name for f in self.feeds)
        return f"<{self.kind} program: feeds {feeds}; {self.layout!r}>"
