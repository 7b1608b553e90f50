"""Capture a compiled Keras model."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from ...archive.spec import FeedSpec
from ...archive.stack_frames import collect, graphs, named_operations
from ...blocks.block import ColumnSpec
from ...common.arrays import Array, Buffer
from ...errors import ShapeMismatch
from ...inference.servable import HeldRows
from ...runtime.eager import eagerly
from ..export.base import ColumnType, Program
from ..export.cut import Cut, Recorder
from ..export.frozen import digest, frozen_weights, refuse_assigned, refuse_thawed, synchronised
from ..export.optimizers import (
    Counters,
    constant_rate,
    held_by,
    learning_rate_of,
    optimizers_of,
    scales_of,
    state_of,
)
from ..export.packing import export
from ..export.saving import keras_file, model_checkpoint, saved_model
from ..export.step import Optimizing, RunningMetrics, Step, Traced, layout_of, trace, values_of
from . import kept, structure
from .averages import Averages
from .embeddings import gathering, tables_in
from .fields import Fields
from .measuring import Measuring, running_of
from .served import ServedLayers
from .serving import serve_keras


class KerasProgram(Program):
    """A compiled Keras 3 model.

    Its weights are synchronized, with moving statistics of BatchNormalization and without frozen
    layers. Optimizer state, metrics and random seeds stay local to each worker. Averages of
    weights (``use_ema=True``) are synchronized, and in the model when a run has ended.

    Parameters
    ----------
    model : keras.Model
        Built and compiled. A record's fields are its inputs, then its labels, one for each output.
        They go by name if names are given, else in the order of `feeds`, in which the model
        was defined. Data of inputs alone train a model whose own steps need no labels. A feed has
        the name of its input or output; one alone that the user has not named is ``x`` or ``y``.
    labels : int, optional
        The number of labels of a record. By default one for each output, or none if the data have
        none and the model needs none. That is a model with its own ``train_step`` or
        ``compute_loss``, or one compiled without a loss, for ``add_loss``.
    weights : bool
        Whether a record has one more field after its labels: how much it counts in the loss.
    class_weight : mapping of int to float, optional
        How much a row of each class counts in the loss while training, as for Keras's ``fit``;
        those that are not named count 1. For models with one output.
    preprocess : callable, optional
        Makes the model's input of a batch as it is fed, in the structure of the input, such as
        ``lambda x: tf.image.per_image_standardization(tf.cast(x, "float32"))``. It is traced into
        the program, and runs on the workers; `evaluate` also applies it.

    Raises
    ------
    CaptureError
        The model is not built or not compiled, or Keras runs on another backend.
    UnsupportedProgram
        It has no weights that could be trained, or needs this process to train them.
    """

    kind = "keras"

    def __init__(
        self,
        model: Any,
        labels: int | None = None,
        weights: bool = False,
        class_weight: Mapping[int, float] | None = None,
        preprocess: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__()
        structure.check_model(model)
        self._model = model
        with eagerly():
            if model.optimizer is not None:
                model.optimizer.build(model.trainable_variables)
        self._weights = synchronised(model)
        self._frozen = frozen_weights(model)
        self._optimizers = optimizers_of(model)
        self._averages = Averages(self._optimizers)
        self._scales = scales_of(held_by(model))
        self._served = ServedLayers(model, self._optimizers)
        self._lay_out()
        kept = set(map(id, self._served.kept))
        states = [v for optimizer in self._optimizers for v in state_of(optimizer)]
        self._state = [v for v in states if id(v) not in kept]
        self.optimizer_state = tuple(v.path for v in self._state)
        self._fields = Fields(model, labels, weights, class_weight, preprocess)
        self._preprocess, self._class_weight = preprocess, class_weight
        self._captured = labels, weights
        self._measuring = Measuring(model, self._fields.batch)

    @property
    def captured(self) -> Mapping[str, Any]:
        """The options of `tos_notebook.capture` that it was made with."""
        labels, weights = self._captured
        return {
            "labels": labels,
            "weights": weights,
            "class_weight": self._class_weight,
            "preprocess": self._preprocess,
        }

    @property
    def feeds(self) -> tuple[FeedSpec, ...]:  # type: ignore[override]
        """See `Program.feeds`."""
        return self._fields.all

    def weighted(self, class_weight: Mapping[int, float]) -> Program:
        """See `Program.weighted`."""
        labels, weights = self._captured
        return KerasProgram(self._model, labels, weights, class_weight, self._preprocess)

    def expect_classes(self, count: int) -> None:
        """Let labels be checked to be whole numbers from 0 to `count` - 1."""
        self._fields.expect_classes(count)

    @property
    def rows_of_batch(self) -> int | None:
        """See `Program.rows_of_batch`: what ``keras.Input(batch_shape=...)`` says."""
        return structure.rows_of_batch(self._model)

    def with_labels(self, given: bool) -> None:
        """See `Program.with_labels`."""
        self._fields.labelled = given

    def _lay_out(self) -> None:
        scales = self._scales if self.gradients else ()
        self._exchanged = [*self._weights, *self._averages.variables, *scales]
        statistics = [i for i, weight in enumerate(self._exchanged) if not weight.trainable]
        self.layout = layout_of(
            [weight.path for weight in self._exchanged],
            [weight.value for weight in self._exchanged],
            statistics,
            len(self._weights),
            # What is added up, gradients, is of all rows.
            [] if self.gradients else tables_in(self._model, self._exchanged),
            self._served.tables,
        )

    def export(self, columns: Sequence[ColumnType]) -> Path:
        """See `Program.export`."""
        refuse_thawed(self._model, self._weights)
        return super().export(columns)

    def _export(self, columns: tuple[ColumnType, ...], target: Path) -> None:
        with eagerly():
            made_of = self._made_of(columns)
            made_by = kept.makers(self._model, self._optimizers)
            if made_of and kept.find(self._model, made_of, made_by, target):
                return
            held = self._trace_and_pack(columns, target)
            if made_of:
                kept.keep(self._model, made_of, made_by, held, target)

    def _made_of(self, columns: tuple[ColumnType, ...]) -> tuple[Any, ...]:
        """Return what decides what is traced; nothing where that cannot be told."""
        given = self._preprocess or self._class_weight
        configuration = None if given else kept.configuration(self._model)
        if configuration is None:
            return ()
        here = self.feeds, self.gradients, self.layout, self._adapted, self.frozen
        return columns, configuration, *here

    def _trace_and_pack(
        self, columns: tuple[ColumnType, ...], target: Path
    ) -> Sequence[tf.Variable]:
        rate = self._learning_rate
        specs = [tf.TensorSpec([None, *shape], dtype) for dtype, shape in columns]
        with structure.named_plainly(self._model):
            counters = Counters(self._optimizers)
            traced, cut = self._trace(specs, counters)
            function = traced.function
            refuse_assigned(function, self._frozen)
            running = running_of(self._model, function.graph, traced.outputs)

            def results() -> dict[str, Any]:
                found = self._model.get_metrics_result()
                return {name: value for name, value in found.items() if name in running}

            state = [v.value for v in self._state]
            step = Step(
                [w.value for w in self._exchanged],
                traced,
                Optimizing(None if rate is None else rate.value, state, counters.restart),
                counters.variables,
                RunningMetrics(running, results, self._model.reset_metrics),
                [weight.constraint for weight in self._exchanged],
                cut,
                self._served.variables,
                self._served.ids_of(self._inputs) if self._served.layers else None,
            )
            outputs = tuple(sorted(traced.outputs, key=lambda name: name != "loss"))
            operations = named_operations(graphs(function.graph))
            layers = [layer.name for layer in self._model._flatten_layers(include_self=False)]
            frames = collect(operations, layers)
            return export(step, self._spec(outputs), specs, frames, target)

    def _trace(
        self, specs: Sequence[tf.TensorSpec], counters: Counters
    ) -> tuple[Traced, Cut | None]:
        @contextmanager
        def as_one_optimizer() -> Iterator[None]:
            with (
                counters.apart(),
                self._averages.exchanged(),
                gathering(self._model),
                self._served.looking_up(),
            ):
                yield

        recorder = Recorder(held_by(self._model)) if self.gradients else None
        with as_one_optimizer():
            step = recorder.recorded(self._apply) if recorder else self._apply
            tables = [
                weight.value
                for weight, spec in zip(self._exchanged, self.layout.specs, strict=True)
                if spec.by_row
            ]
            what = f"the training step of model {self._model.name!r}"
            traced = trace(step, specs, what, tables)
        if recorder is None:
            return traced, None
        exchanged = [w.value for w in self._exchanged]
        return traced, recorder.cut(traced.function, exchanged, as_one_optimizer)

    def _apply(self, *batch: tf.Tensor) -> dict[str, tf.Tensor]:
        try:
            logs = self._model.train_step(self._fields.batch(batch, training=True))
        except ValueError as error:
            if not _raised_in_keras(error):
                raise
            raise ShapeMismatch(
                f"Keras cannot train on feeds {_named(self.feeds, batch)}. Labels of one class "
                "number a row go with sparse_categorical_crossentropy, one-hot labels with "
                f"categorical_crossentropy. Keras says: {error}"
            ) from error
        return structure.as_logs(self._model, "train_step", logs)

    def _inputs(self, *batch: tf.Tensor) -> Any:
        """Return the model's input of a batch."""
        x, _, _ = keras.utils.unpack_x_y_sample_weight(self._fields.batch(batch))
        return x

    @property
    def inputs(self) -> tuple[FeedSpec, ...]:
        """See `Predictor.inputs`."""
        return self._fields.inputs

    @property
    def record(self) -> Mapping[str, tuple[FeedSpec, ...]]:
        """See `Program.record`."""
        return self._fields.parts

    def serve(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """See `Predictor.serve`."""
        serve_keras(self._model, self._fields.struct, columns, target, self._preprocess)

    @property
    def _learning_rate(self) -> Any:
        return learning_rate_of(self._model.optimizer)

    @property
    def frozen(self) -> str:
        """See `Program.frozen`."""
        with eagerly():
            return digest(w.value for w in self._frozen)

    @property
    def _adapted(self) -> tuple[Any, ...]:
        with eagerly():
            return structure.adapted(self._model)

    @property
    def model(self) -> Any:
        """See `Program.model`."""
        return self._model

    @property
    def drawing(self) -> tuple[str, bytes] | None:
        """See `Program.drawing`; None for a subclass, of which Keras has no picture."""
        if getattr(structure.functional(self._model), "_inputs_struct", None) is None:
            return None
        return "keras", self._model.to_json().encode()

    @property
    def _writers(self) -> Mapping[str, Callable[[Path], None]]:
        if self._served.layers:
            # No such file holds their rows.
            return {}
        return {
            "keras": partial(keras_file, self._model),
            "savedmodel": partial(saved_model, self._model),
            "checkpoint": partial(model_checkpoint, self._model),
        }

    @property
    def has_learning_rate(self) -> bool:
        """See `Program.has_learning_rate`."""
        return self._learning_rate is not None

    @property
    def learning_rate(self) -> float | None:
        """See `Program.learning_rate`."""
        return constant_rate(self._learning_rate)

    @property
    def scales_loss(self) -> bool:
        """See `Program.scales_loss`."""
        return bool(self._scales)

    def read(self) -> Buffer:
        """See `Program.read`."""
        return values_of(self.layout, (weight.value for weight in self._exchanged))

    def write(self, buffer: Buffer) -> None:
        """See `Program.write`."""
        values = self.layout.tensors(buffer).values()
        with eagerly():
            for weight, value in zip(self._exchanged, values, strict=True):
                constraint = weight.constraint
                weight.assign(value if constraint is None else constraint(value))

    @property
    def rows(self) -> Any:
        """See `Program.rows`."""
        return self._served.rows

    @property
    def served(self) -> HeldRows | None:
        """See `Servable.served`."""
        return self._served.held

    def find_rows(self, held: HeldRows) -> None:
        """See `Program.find_rows`."""
        self._served.find_in(held)

    def finish(self) -> bool:
        """See `Program.finish`: averages, and what constraints have changed, are there to stay."""
        with eagerly():
            averaged = self._averages.finish()
        return averaged or any(weight.constraint is not None for weight in self._weights)

    def require_measuring(self, columns: Sequence[ColumnSpec] = ()) -> None:
        """See `Program.require_measuring`."""
        with eagerly(), structure.named_plainly(self._model):
            self._measuring.require(columns)

    def pack_measure(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """See `Program.pack_measure`."""
        with eagerly(), structure.named_plainly(self._model):
            self._measuring.pack(columns, target)

    def measured_names(self, trained: tuple[str, ...]) -> tuple[str, ...] | None:
        """See `Program.measured_names`: steps of the user's own return what they like."""
        return None if structure.has_own_values(self._model) else trained

    def expected_names(self) -> tuple[str, ...] | None:
        """See `Program.expected_names`: what the model was compiled with."""
        return structure.compiled_names(self._model)

    def measured(self, sums: Sequence[Array]) -> Mapping[str, float]:
        """See `Program.measured`."""
        with eagerly():
            return self._measuring.measured(sums)

    def _evaluate(self, columns: Sequence[Array], batch_size: int) -> Mapping[str, float]:
        with eagerly(), structure.named_plainly(self._model):
            return self._measuring.evaluate(columns, batch_size)


def _raised_in_keras(error: Exception) -> bool:
    """Return whether Keras itself has raised an error, and not what the user wrote."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and str(Path(keras.__file__).parent) in frames[-1].filename


def _named(feeds: Sequence[FeedSpec], batch: Sequence[tf.Tensor]) -> str:
    """Return feeds with what they are given."""
    return ", ".join(
        f"{feed.name!r} ({tensor.dtype.name} of shape {tuple(tensor.shape)[1:]})"
        for feed, tensor in zip(feeds, batch, strict=True)
    )
