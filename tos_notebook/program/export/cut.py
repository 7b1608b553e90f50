"""Cut a training step in two: the gradients of a batch, and the update that an optimizer makes.

Workers compute the first, each of its own batch. The second takes the mean of what all have
found, so that n workers with batches of b rows train as one process does with batches of n * b.
Clipping and the scaling of losses are in the second part: they see the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from ...errors import UnsupportedProgram
from .frozen import assigned

INSTEAD = (
    'Train it with strategy="ps", or let workers exchange parameters: '
    'tos.strategies.AllReduce(of="parameters", every=10).'
)
"""What works for programs that cannot be cut."""


@dataclass(frozen=True)
class Cut:
    """The two parts of a step.

    Parameters
    ----------
    variables : sequence of tf.Variable
        Those that have a gradient, in the order in which the traced step returns them.
    update : callable
        Takes their gradients, in that order, and lets the optimizer make its step; to be traced.
    """

    variables: Sequence[tf.Variable]
    update: Callable[[Sequence[tf.Tensor]], object]


def cannot_be_cut(cause: str) -> UnsupportedProgram:
    """Return the error of a step that has no place to cut.

    Parameters
    ----------
    cause : str
        A clause, such as ``"its train_step updates the weights twice"``.
    """
    return UnsupportedProgram(
        f"The program cannot be trained by gradients, since {cause}. {INSTEAD}"
    )


def value_of(variable: Any) -> tf.Variable:
    """Return TensorFlow's variable, of one that may be Keras'."""
    return variable.value if isinstance(variable, keras.Variable) else variable


@dataclass
class Recorder:
    """Takes the place of an optimizer's `apply` while a step is traced, and keeps what it is given.

    Parameters
    ----------
    optimizers : sequence of keras.optimizers.Optimizer
        All that the step may use.
    """

    optimizers: Sequence[Any]
    gradients: list[tf.Tensor] = field(default_factory=list)
    _variables: list[Any] = field(default_factory=list)
    _optimizer: Any = None
    _graph: Any = None
    _before: int = 0

    def recorded(self, apply: Callable[..., Any]) -> Callable[..., tuple[Any, list[tf.Tensor]]]:
        """Return a step that also returns its gradients, and whose optimizers change nothing.

        Parameters
        ----------
        apply : callable
            The whole step.
        """

        def step(*batch: tf.Tensor) -> tuple[Any, list[tf.Tensor]]:
            with self._recording():
                return apply(*batch), self.gradients

        return step

    @contextmanager
    def _recording(self) -> Iterator[None]:
        # TensorFlow traces again if the first time has made variables, such as a metric's.
        self._optimizer = None
        for optimizer in self.optimizers:
            optimizer.apply = partial(self._record, optimizer)
        try:
            yield
        finally:
            for optimizer in self.optimizers:
                del optimizer.apply

    def _record(self, optimizer: Any, grads: Any, trainable_variables: Any = None) -> None:
        if self._optimizer is not None:
            raise cannot_be_cut("it updates its weights more than once in a step")
        known = optimizer._trainable_variables
        variables = list(known if trainable_variables is None else trainable_variables)
        pairs = [(g, v) for g, v in zip(grads, variables, strict=True) if g is not None]
        if not pairs:
            raise ValueError("No gradients provided for any variable.")
        self._optimizer = optimizer
        self._variables = [variable for _, variable in pairs]
        # Of an embedding, TensorFlow makes a sparse one. What is added up is dense.
        self.gradients = [tf.convert_to_tensor(gradient) for gradient, _ in pairs]
        self._graph = tf.compat.v1.get_default_graph()
        self._before = len(self._graph.get_operations())

    def cut(
        self,
        function: Any,
        parameters: Sequence[tf.Variable],
        around: Callable[[], AbstractContextManager[None]],
    ) -> Cut:
        """Return the parts of a step that was traced while recording.

        Parameters
        ----------
        function : ConcreteFunction
        parameters : sequence of tf.Variable
            All that is synchronised.
        around : callable
            Returns a context in which the optimizer makes its step.

        Raises
        ------
        UnsupportedProgram
            It has no place to cut.
        """
        if self._optimizer is None:
            raise cannot_be_cut("it does not call the optimizer's apply or apply_gradients")
        if self._graph is not function.graph:
            raise cannot_be_cut("it updates its weights in a condition or a loop")
        values = [value_of(variable) for variable in self._variables]
        known = set(map(id, parameters))
        if not all(id(value) in known for value in values):
            raise cannot_be_cut("its optimizer changes variables that are not its parameters")
        if assigned(function, values):
            raise cannot_be_cut("it changes its weights without the optimizer")
        self._refuse_reads_after(function, values)
        optimizer, variables = self._optimizer, self._variables

        def update(gradients: Sequence[tf.Tensor]) -> None:
            with around():
                optimizer.apply(list(gradients), variables)

        return Cut(values, update)

    def _refuse_reads_after(self, function: Any, values: Sequence[tf.Variable]) -> None:
        handles = {id(value.handle) for value in values}
        inner = {i.name for outer, i in function.graph.captures if id(outer) in handles}
        for operation in function.graph.get_operations()[self._before :]:
            if any(tensor.name in inner for tensor in operation.inputs):
                raise cannot_be_cut("it uses its weights again once the optimizer has changed them")
