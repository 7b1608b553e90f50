"""Capture what a cell defines, or what the options name, and describe it."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import CaptureError
from ..program.kinds import is_keras
from ..readable import counted
from . import find
from .find import Names

KINDS = {"graph": "a TF1-style graph", "keras": "a Keras model", "module": "a module"}
FETCHES = ("train_step", "train_op")
LOSSES = ("loss", "cross_entropy", "cost")
GRAPH_OPTIONS = ("fetch", "feeds", "loss", "metrics", "params", "learning_rate", "feed_dict")

STATE = {
    "keep": "kept by each worker",
    "reset": "reset after each exchange",
}
"""What becomes of the optimizer state."""

_APPLY = re.compile(r"(?:Resource|Sparse)*Apply(\w+)")


@dataclass(frozen=True, slots=True)
class Captured:
    """A program, and what only its model or graph could tell.

    Parameters
    ----------
    program : Program
    loss, optimizer : str
        Empty where unknown.
    origin : str
        A sentence that says where the model is from, if the cell does not name it.
    by_gradients : bool
        Whether one optimizer makes the steps of all workers.
    rule : str
        What makes the steps in place of the optimizer; empty where nothing does.
    """

    program: Any
    loss: str = ""
    optimizer: str = ""
    origin: str = ""
    by_gradients: bool = False
    rule: str = ""

    @property
    def title(self) -> str:
        """What was captured, in few words."""
        size = self.program.layout.of_model.size
        kind = KINDS.get(self.program.kind, self.program.kind).removeprefix("a ")
        words = f"{kind}, {counted(size, 'parameter')}", self.optimizer
        return ", ".join(word for word in words if word)

    def lines(self, optimizer_state: str) -> Iterator[str]:
        """Yield what was captured, for people.

        Parameters
        ----------
        optimizer_state : {"keep", "reset"}
            What becomes of it.
        """
        from ..readable import amount

        layout = self.program.layout.of_model
        if self.origin:
            yield self.origin
        yield f"Captured {KINDS.get(self.program.kind, self.program.kind)}"
        facts = {
            **{part: ", ".join(map(_feed, feeds)) for part, feeds in self.program.record.items()},
            "parameters": f"{layout.size:,} in {counted(len(layout), 'tensor')}, "
            f"{amount(_size(layout))}",
            "loss": self.loss,
            "optimizer": self._optimizer(optimizer_state),
        }
        yield from (f"  {name:<11}{text}" for name, text in facts.items() if text)

    def _optimizer(self, policy: str) -> str:
        if not self.rule:
            return " ".join(filter(None, [self.optimizer, self._state(policy)]))
        name = self.optimizer.partition(",")[0]
        return f"{self.rule}{f', in place of {name}' if name else ''}"

    def _state(self, policy: str) -> str:
        kept = len(self.program.optimizer_state)
        whose = "one for all workers" if self.by_gradients else STATE[policy]
        return f"({counted(kept, 'tensor')} of state, {whose})" if kept else ""


def captured(names: Names, options: Namespace) -> Captured:
    """Capture the cell's, or the notebook's, model.

    Parameters
    ----------
    names : Names
    options : Namespace
        Those of ``%%tos_train``.

    Raises
    ------
    CaptureError
        Nothing can be captured, or more than one thing.
    ConfigError
        An option names no variable.
    """
    given = [n for n in GRAPH_OPTIONS if getattr(options, n) is not None]
    in_graph = names.ran is not None and names.ran.graph
    if options.model is not None:
        return _capture_model(_model(names, options.model), given, options.weight)
    if not in_graph and options.fetch is None:
        model = find.keras_model(names)
        if model is not None:
            named = names.ran is None or names.found(find.is_compiled)
            origin = "" if named else "You train `model` from an earlier cell."
            return replace(_capture_model(model, given, options.weight), origin=origin)
        if not names.found(find.is_session):
            raise CaptureError(
                "Found nothing to train: expected a compiled Keras model, or a TF1-style graph "
                "with a session. Define it in the cell, or name it: --model, or --fetch."
            )
    return _capture_graph(names, options)


def _model(names: Names, name: str) -> Any:
    from ..program.export.base import Program

    value = names.get("--model", name)
    if not (is_keras(value) or isinstance(value, Program)):
        raise CaptureError(
            f"--model: expected a compiled Keras model, got {name}, of type "
            f"{type(value).__name__}. A graph's train operation is named with --fetch."
        )
    return value


def _capture_model(model: Any, given: list[str], weight: str | None) -> Captured:
    from ..program.capture import capture

    if given:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise CaptureError(f"{flags}: only for a TF1-style graph, got a model. Leave it out.")
    if not is_keras(model):
        return Captured(capture(model))
    program = capture(model, weights=weight is not None)
    optimizer = type(model.optimizer).__name__
    if program.has_learning_rate:
        optimizer += f", learning rate {float(model.optimizer.learning_rate):.4g}"
    return Captured(program, _loss_name(model.loss), optimizer)


def _loss_name(loss: Any) -> str:
    if isinstance(loss, dict | list | tuple):
        return ", ".join(map(_loss_name, loss.values() if isinstance(loss, dict) else loss))
    return str(getattr(loss, "name", None) or getattr(loss, "__name__", None) or loss or "")


def _capture_graph(names: Names, options: Namespace) -> Captured:
    from ..program.capture import capture

    fetches = [] if options.fetch is None else names.several("--fetch", options.fetch)
    session = find.session(names, getattr(fetches[0], "graph", None) if fetches else None)
    graph = session.graph
    fetches = fetches or [_train_operation(names, graph)]
    settings: dict[str, Any] = {
        "feeds": _feeds(names, options, graph),
        "session": session,
        "loss": _loss(names, options, graph),
        "params": _params(names, options, graph),
    }
    if options.metrics is not None:
        metrics = [name.strip() for name in options.metrics.split(",")]
        settings["metrics"] = {name: names.get("--metrics", name) for name in metrics}
    for name in ("learning_rate", "feed_dict"):
        if getattr(options, name) is not None:
            settings[name] = names.get(f"--{name.replace('_', '-')}", getattr(options, name))
    program = capture(fetches, **settings)
    return Captured(program, getattr(settings["loss"], "name", ""), _optimizer(fetches))


def _train_operation(names: Names, graph: Any) -> Any:
    named = names.first(FETCHES, find.belongs_to(graph))
    collected = graph.get_collection("train_op")
    if named is not None or len(collected) == 1:
        return collected[0] if named is None else named
    raise CaptureError(
        f"Expected one train operation, but the graph has "
        f"{'several optimizers' if collected else 'no optimizer'}. Call it train_step, as in "
        "train_step = optimizer.minimize(loss), or name it with --fetch."
    )


def _feeds(names: Names, options: Namespace, graph: Any) -> list[Any]:
    if options.feeds is not None:
        return names.several("--feeds", options.feeds)
    operations = graph.get_operations()
    known = {output.name for op in operations for output in op.outputs}
    # An older cell's list may name another graph's placeholders.
    listed = names.first(["feed_name_list"], lambda names: set(map(_name, names)) <= known)
    if listed:
        return list(listed)
    made = [op.outputs[0] for op in operations if op.type == "Placeholder"]
    if not made:
        raise CaptureError(
            "The graph has no placeholder to feed records to. Make one for each field, such as "
            "x = tf.placeholder(tf.float32, [None, 784])."
        )
    constants = names.get("--feed-dict", options.feed_dict) if options.feed_dict else {}
    fixed = set(map(_name, constants))
    return [tensor for tensor in made if tensor.name not in fixed]


def _name(tensor: Any) -> str:
    return str(getattr(tensor, "name", tensor))


def _loss(names: Names, options: Namespace, graph: Any) -> Any:
    if options.loss is not None:
        return names.get("--loss", options.loss)
    return names.first(LOSSES, find.belongs_to(graph))


def _params(names: Names, options: Namespace, graph: Any) -> list[Any] | None:
    if options.params is not None:
        return names.several("--params", options.params)
    listed = names.first(["param_list"], lambda values: all(map(find.belongs_to(graph), values)))
    return list(listed) if listed else None


def _optimizer(fetches: list[Any]) -> str:
    """Return the kinds of update that the train operations make."""
    seen, waiting, kinds = set(), list(fetches), []
    while waiting:
        element = waiting.pop()
        op = getattr(element, "op", element)
        if op in seen:
            continue
        seen.add(op)
        applies = _APPLY.fullmatch(op.type)
        if applies:
            kinds.append(applies[1])
        else:
            waiting += [*op.control_inputs, *op.inputs]
    return ", ".join(dict.fromkeys(kinds))


def _size(layout: Any) -> int:
    """Return the bytes of the parameters, without the padding between them."""
    return sum(spec.size * np.dtype(spec.dtype).itemsize for spec in layout.specs)


def _feed(feed: Any) -> str:
    sizes = None if feed.shape is None else ["?", *("?" if n is None else n for n in feed.shape)]
    shape = "" if sizes is None else f"({', '.join(map(str, sizes))})"
    return " ".join(filter(None, [feed.name, feed.dtype, shape]))
