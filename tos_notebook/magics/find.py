"""Find the objects to train: by name, or by what they are."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from ..common.checks import did_you_mean
from ..data.described import is_frame
from ..errors import CaptureError, ConfigError, TosError
from ..nodes.runs import ClusterRun
from ..program.kinds import all_are, is_keras
from .cell import Ran

Test = Callable[[Any], bool]

_OF_IPYTHON = ("In", "Out", "exit", "quit", "open", "get_ipython")
"""What IPython puts among a notebook's variables."""


@dataclass(frozen=True, slots=True)
class Names:
    """The notebook's variables.

    Parameters
    ----------
    namespace : mapping of str
    ran : Ran or None
        What the cell bound and read; None for a line, which looks at everything.
    """

    namespace: Mapping[str, Any]
    ran: Ran | None = None

    def get(self, option: str, name: str) -> Any:
        """Return the variable that an option names.

        Raises
        ------
        ConfigError
            None has that name.
        """
        if name in self.namespace:
            return self.namespace[name]
        raise ConfigError(
            f"{option}: expected the name of a variable of this notebook, got {name!r}."
            f"{did_you_mean(name, self.public)}"
        )

    @property
    def public(self) -> list[str]:
        """The variables that users mean."""
        return [n for n in self.namespace if not n.startswith("_") and n not in _OF_IPYTHON]

    def several(self, option: str, names: str) -> list[Any]:
        """Return the variables behind ``a,b``; one that is a list stands for its elements."""
        values = [self.get(option, name.strip()) for name in names.split(",")]
        if len(values) == 1 and isinstance(values[0], list | tuple):
            return list(values[0])
        return values

    def first(self, names: Iterable[str], test: Test) -> Any:
        """Return the first variable of these names that passes, or None."""
        found = (self.namespace[name] for name in names if name in self.namespace)
        return next((value for value in found if test(value)), None)

    def bound(self, test: Test) -> dict[str, Any]:
        """Return what passes of the variables that the cell bound."""
        return {} if self.ran is None else self._those(self.ran.bound, test)

    def found(self, test: Test) -> dict[str, Any]:
        """Return what passes: of what the cell bound, else read; for a line, of everything."""
        if self.ran is None:
            return self._those(self.namespace, test)
        return self.bound(test) or self._those(self.ran.mentioned, test)

    def _those(self, names: Iterable[str], test: Test) -> dict[str, Any]:
        # IPython's own _, __ and _12 hold what was shown.
        public = [n for n in sorted(names) if n in self.namespace and not n.startswith("_")]
        return {n: self.namespace[n] for n in public if test(self.namespace[n])}


def data(names: Names, option: str, text: str) -> Any:
    """Return training or validation data: a variable, or a tuple of arrays for ``x,y``."""
    values = [names.get(option, name.strip()) for name in text.split(",")]
    return values[0] if len(values) == 1 else tuple(values)


def columns(frame: Any, option: str, options: Namespace) -> Any:
    """Return the columns of a DataFrame, of Spark or pandas, that the options name.

    Other data are returned as they are.

    Raises
    ------
    ConfigError
        A DataFrame without names of columns, or names without a DataFrame.
    DataError, ConnectError
        It has no such columns, or is of a session that cannot train.
    """
    # They load pyspark, which an extension need not.
    from ..data.chosen import chosen
    from ..data.tables import is_table

    if not is_frame(frame) and is_table(frame):
        if options.weight:
            raise ConfigError(
                f"--weight: expected a Spark DataFrame with it, but {option} is of "
                f"{type(frame).__module__.partition('.')[0]}. Give what spark.createDataFrame(...) "
                "makes of it."
            )
        names = (_listed(text) or None for text in (options.features or "", options.label or ""))
        return chosen(frame, *names)
    if not is_frame(frame):
        if options.features or options.label or options.weight:
            raise ConfigError(
                f"--features, --label, --weight: only for a DataFrame, but {option} is of type "
                f"{type(frame).__name__}. Leave them out."
            )
        return frame
    if not options.features:
        raise ConfigError(
            f"{option} is a DataFrame: expected the names of its columns, such as --features "
            f"x1,x2 --label y. It has {', '.join(frame.columns)}."
        )
    from ..blocks.skips import Advice
    from ..data.dataframe import columns

    features, label = (_listed(names) for names in (options.features, options.label or ""))
    found = columns(frame, features, label, weight=options.weight, on_bad=options.on_bad)
    return replace(found, advice=Advice("--on-bad skip"))


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def strategy(namespace: Mapping[str, Any], name: str) -> Any:
    """Return a strategy's name, or the notebook's object of that name."""
    from ..strategies.registry import STRATEGIES, as_strategy

    if name.lower() in STRATEGIES:
        return name
    return _variable(namespace, name, as_strategy, is_strategy)


def combiner(namespace: Mapping[str, Any], name: str) -> Any:
    """Return a built-in combiner's name, or the notebook's object of that name."""
    from ..combiners import as_combiner
    from ..combiners.registry import COMBINERS

    if name.lower() in COMBINERS:
        return name
    return _variable(namespace, name, as_combiner, may_combine)


def _variable(
    namespace: Mapping[str, Any], name: str, read: Callable[[str], Any], fits: Test
) -> Any:
    """Return the notebook's object of a name, or the name, if it can be read.

    Of the notebook's objects, those that fit may be meant by a name that is near.

    Raises
    ------
    ConfigError
        It cannot; the message says that there is no variable of that name, either.
    """
    if name in namespace:
        return namespace[name]
    try:
        read(name)
    except TosError as error:
        near = did_you_mean(name, [n for n in namespace if fits(namespace[n]) and n[:1] != "_"])
        hint = "" if "Did you mean" in str(error) else near
        text = f"{error} No variable of this notebook has that name.{hint}"
        raise ConfigError(text) from None
    return name


def every(text: str) -> str | int:
    """Return what `as_trigger` takes: a bare number is one of milestones."""
    return int(text) if text.isdecimal() else text


def named(namespace: Mapping[str, Any], option: str, value: Any) -> Any:
    """Return an option's value: what a strategy or a combiner names, others as they are read."""
    finders = {"strategy": strategy, "combiner": combiner}
    if value and option in finders:
        return finders[option](namespace, value)
    return every(value) if option == "checkpoint_every" else value


def is_strategy(value: Any) -> bool:
    """Whether a variable of the notebook is a strategy."""
    from ..strategies.registry import STRATEGIES

    return type(value) in STRATEGIES.values()


def is_combiner(value: Any) -> bool:
    """Whether a value is a combiner of the user's."""
    from ..combiners import Combiner, Preset

    is_class = isinstance(value, type)
    return issubclass(value, Combiner) if is_class else isinstance(value, Combiner | Preset)


def may_combine(value: Any) -> bool:
    """Whether a value is a combiner, or a function of the notebook, which may be one."""
    if is_combiner(value):
        return True
    return isinstance(value, FunctionType) and value.__module__ == "__main__"


def is_cluster(value: Any) -> bool:
    """Whether a value is a TensorFlow cluster that a cell has started."""
    return isinstance(value, ClusterRun)


def is_started(value: Any) -> bool:
    """Whether a value is a run, a saved run or a cluster, or nothing."""
    from ..training import factory, saved

    if value is None or isinstance(value, ClusterRun | saved.SavedRun):
        return True
    return any(value is run for run in factory.runs())


def is_callback(value: Any) -> bool:
    """Whether a value is a Keras callback, or a list of them."""
    keras = sys.modules.get("keras")
    return keras is not None and all_are(value, keras.callbacks.Callback)


def is_compiled(value: Any) -> bool:
    """Whether a value is a Keras model that could be trained."""
    return is_keras(value) and bool(value.compiled)


def is_session(value: Any) -> bool:
    """Whether a value is a TF1 session."""
    tf = sys.modules.get("tensorflow")
    if tf is None:
        return False
    return isinstance(value, tf.compat.v1.Session | tf.compat.v1.InteractiveSession)


def belongs_to(graph: Any) -> Test:
    """Return a test for tensors, operations and variables of one graph."""
    return lambda value: getattr(value, "graph", None) is graph


def keras_model(names: Names) -> Any:
    """Return the one compiled model of the cell, or of the notebook; None if there is none.

    Raises
    ------
    CaptureError
        There are several and none is called ``model``, or the cell's is not compiled.
    """
    found = names.bound(is_compiled)
    defined = names.bound(is_keras)
    if defined and not found:
        name = next(iter(defined))
        raise CaptureError(
            f"The Keras model {name!r} is not compiled. Call its compile(optimizer, loss) in the "
            "cell, or name another model with --model."
        )
    found = found or names.found(is_compiled)
    if len({id(model) for model in found.values()}) > 1 and "model" not in found:
        raise CaptureError(
            f"Expected one compiled Keras model, found {', '.join(found)}. Name it, such as "
            f"--model {next(iter(found))}."
        )
    only = next(iter(found.values()), None)
    return found.get("model", only) if found else names.first(["model"], is_compiled)


def session(names: Names, graph: Any = None) -> Any:
    """Return the one TF1 session of the cell, or of the notebook, and of a graph if one is given.

    Raises
    ------
    CaptureError
        None was made, or several, or it was closed.
    """

    def fits(value: Any) -> bool:
        return is_session(value) and (graph is None or value.graph is graph)

    # Whose graph is known may be older than the cell.
    found = (names if graph is None else Names(names.namespace)).found(fits)
    if not found:
        raise CaptureError(
            "The graph has no session, which holds its values. Add to the cell: "
            "sess = tf.Session(); sess.run(tf.global_variables_initializer())"
        )
    if len({id(value) for value in found.values()}) > 1:
        raise CaptureError(
            f"Expected one TensorFlow session, found {', '.join(found)}. Keep one of them, or name "
            "the train operation with --fetch."
        )
    name, value = next(iter(found.items()))
    if getattr(value, "_closed", False):
        raise CaptureError(
            f"The session {name} is closed, but the trained values go there. Make it without a "
            "with block: sess = tf.Session()"
        )
    return value
