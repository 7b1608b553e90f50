"""Say where an option belongs that is given elsewhere, and what words of others are here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...common.checks import Function, with_known_options
from .call import CallOptions
from .observers import ObserverOptions
from .option import options_of
from .run import RunOptions
from .session import SessionOptions

Hint = Callable[[str], str]
"""Takes the name of an option; returns a sentence, or nothing."""


def _known(*kinds: type) -> dict[str, str]:
    """Return the options of kinds, and their other names, each with its own name."""
    found = options_of(*kinds)
    return {n: n for n in found} | {each.alias: n for n, each in found.items() if each.alias}


_SESSION, _RUN = _known(SessionOptions), _known(RunOptions, ObserverOptions, CallOptions)

_SWAPPED: Mapping[str, str] = {
    "shards": "comes with a strategy, at the end of the epoch: "
    "run.swap_strategy('ps:shards=2'), or %tos_strategy ps:shards=2.",
    "strategy": "changes at the end of the epoch: run.swap_strategy(...).",
}

_COMPILED = "belongs to the model: model.compile({name}=...)."

_WEIGHTS = (
    "belongs to the rows: tos.fit(tos.capture(model, weights=True), (x, y, weights)), or "
    "tos.columns(df, ..., weight=...)."
)

_RULE = (
    "belongs to a rule that ends the run: callbacks=[EarlyStopping(patience=3)], or "
    "stop_when=tos.conditions.no_improvement(patience=3)."
)

_WORKERS = ("workers", "n_workers", "nworkers", "num_proc", "executors", "num_executors")

_WORDS: Mapping[str, str] = {
    "optimizer": _COMPILED,
    "loss": _COMPILED,
    "metrics": _COMPILED,
    "patience": _RULE,
    "early_stopping": _RULE,
    "steps_per_epoch": "does not exist, since an epoch takes all rows once. Give fewer rows, or "
    'end the run by stop_when="steps >= 1000".',
    "initial_epoch": "does not exist: a run counts its epochs from 1. tos.resume(run.uri) "
    "continues one that has checkpoints.",
    "validation_freq": 'is validation_every here: "2 epochs", "30s" or "50 milestones".',
    "master": 'belongs to Spark: spark = tos.connect("local[4]"), before.',
    **dict.fromkeys(_WORKERS, "is num_workers here."),
    **dict.fromkeys(("staleness", "max_staleness"), 'is sync="ssp:3" here, counted in milestones.'),
    **dict.fromkeys(("features_col", "featuresCol"), "is features here, for a DataFrame."),
    **dict.fromkeys(("labels", "label_col", "labelCol"), "is label here, for a DataFrame."),
    **dict.fromkeys(("keep", "max_to_keep"), "is max_checkpoints here, with checkpoint_dir."),
    "directory": "is checkpoint_dir here.",
    "weight": _WEIGHTS,
    "preprocess": "belongs to the program: tos.capture(model, preprocess=...).",
    "sample_weight": _WEIGHTS,
}
"""What other libraries have, and what to do here."""

_PLACE = ("spark", "program", "server_host", "server_port")
"""What only a session takes."""


def in_words(name: str) -> str:
    """Return how a word of another library is said here."""
    return _WORDS.get(name, "").format(name=name)


def of_session(name: str) -> str:
    """Return where a name belongs that `TrainingSession` does not take."""
    if name in _RUN:
        return f"belongs to a run: session.start(data, {name}=...), or tos.fit(...)."
    return in_words(name)


def of_start(name: str) -> str:
    """Return where a name belongs that `TrainingSession.start` does not take."""
    if name in _PLACE:
        return f"belongs to the session: TrainingSession(..., {name}=...)."
    return in_words(name)


def evaluates(function: Function) -> Function:
    """Let a function that evaluates say where words of other libraries belong."""
    return with_known_options(function, _of_evaluate)


def sets(function: Function) -> Function:
    """Let `Run.set` say what becomes of an option that it does not take."""
    return with_known_options(function, of_set)


def of_set(name: str) -> str:
    """Return how an option is changed, if at all, that `Run.set` does not take."""
    if name in _SWAPPED:
        return _SWAPPED[name]
    return "stays as it is while a run trains." if name in _SESSION or name in _RUN else ""


def _of_evaluate(name: str) -> str:
    if name not in ("sample_weight", "weight"):
        return ""
    return (
        "belongs to the rows: evaluate(x, y, weights), after tos.capture(model, weights=True), or "
        "tos.columns(df, ..., weight=...)."
    )
