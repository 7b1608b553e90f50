"""The options of every magic."""

from __future__ import annotations

from argparse import SUPPRESS
from collections.abc import Mapping
from typing import Any

from ..cluster.environment import WARM_UP_TIMEOUT
from ..common.checks import RAISE_OR_SKIP
from ..errors import ConfigError
from ..steering.actions import ACTIONS, Action
from ..steering.machine import Command
from ..training.options import (
    OPTIONS,
    RESUMABLE,
    Option,
    RunOptions,
    SessionOptions,
    for_resume,
    options_of,
)
from .options import TYPES, Parser, identifier, interval, number, pair, whole
from .steer import SETTINGS

ON_INTERRUPT = ("leave", "stop")
IF_RUNNING = ("ask", "attach", "replace", "stop")

OUTPUT, CLUSTER_OUTPUT = "run", "cluster"
"""The variables by default. They say nothing of a run, and so name none."""

NAME: dict[str, Any] = {"metavar": "NAME"}
NAMES: dict[str, Any] = {"metavar": "NAMES"}
COUNT: dict[str, Any] = {"metavar": "N", "type": whole}
PAIR: dict[str, Any] = {"metavar": "NAME=VALUE", "type": pair}


SECONDS: dict[str, Any] = {"metavar": "SECONDS", "type": number}
EVERY: dict[str, Any] = {"metavar": "TIME", "kind": "every"}
ALONE: dict[str, Any] = {"nargs": "?", "const": True, "action": "store"}

_DEFAULTED = options_of(SessionOptions, RunOptions).keys() - {
    "name",
    "validation_split",
    "partitioner",
}

CONFIGURABLE = {n: o for n, o in OPTIONS.items() if n in _DEFAULTED}
"""Those that have defaults of the user's."""

_PLAIN: Mapping[str, Mapping[str, Any]] = {
    "int": COUNT,
    "float": SECONDS,
    "bool": {"action": "store_const", "const": True},
    "str": NAME,
}
"""How an option is written, by its type."""

_SPELLED: Mapping[str, Mapping[str, Any]] = {
    "strategy": {
        "kind": "strategy",
        "more": " (a name of tos.strategies.describe(), or a variable that holds a strategy)",
    },
    "sync": {
        "kind": "sync",
        "metavar": "MODE",
        "more": ". With asp no worker waits. With ssp:3 a worker waits if it is more than 3 "
        "milestones ahead of the slowest active worker. With bsp all wait for each other at every "
        "milestone. Also written async, bounded:3, sync",
    },
    "codec": {
        "kind": "codec",
        "more": ". One of fp32 (no encoding), bf16, fp16, int8, int4, sign+ef, topk:0.01+ef and "
        "powersgd:4+ef, or two with a slash between, for updates and for replies",
    },
    "combiner": {
        "kind": "combiner",
        "more": " (a built-in's name, or a variable that holds a combiner)",
    },
    "name": {"more": "; the variable of -o by default"},
    "sync_interval": {"metavar": "N", "type": interval, "kind": "interval"},
    "shuffle": {
        **ALONE,
        "metavar": "[partitions]",
        "choices": ("partitions",),
        "more": ", and each partition keeps its rows; on by default",
    },
    "partitioner": {"kind": "partitioner", "more": "; a variable that holds it"},
    "repartition_every": {"more": "; never by default"},
    "participation": {"metavar": "FRACTION", "type": number, "more": "; all by default"},
    "wait": {"more": "; off by default"},
    "histograms": {"more": "; by default with --tensorboard"},
    "checkpoint_every": {**EVERY, "when": "with --checkpoint-dir: ", "more": "; 30s by default"},
    "validation_data": {"kind": "data", "more": ", of the same form"},
    "validation_split": {"metavar": "SHARE"},
    "validation_every": {**EVERY, "more": "; after each epoch by default"},
    "keep_best": {"kind": "best", "more": "; none by default"},
    "callbacks": {"kind": "callbacks", **NAMES},
    "learning_rate": {
        "kind": "rate",
        "metavar": "RATE",
        "type": str,
        "more": ", by its variable; for a graph, the variable that %%tos_set learning_rate=... "
        "sets",
    },
    "stop_when": {
        "kind": "condition",
        "metavar": "CONDITION",
        "more": ", by their variables; of loss, metrics (of validation with val_), samples, steps, "
        "seconds, minutes, hours",
    },
    "tensorboard": {"metavar": "URI", "more": ", for %%tos_tensorboard"},
    "sinks": {"kind": "functions", **NAMES, "more": ", by their variables"},
    "features": {**NAMES, "more": ": x1,x2"},
    "class_weight": {
        "kind": "dict",
        "metavar": "WEIGHTS",
        "type": str,
        "more": ", by its variable, or as 0:1,1:5",
    },
    "checkpoint_dir": {
        "metavar": "URI",
        "more": "; %%tos_resume continues from there. Nowhere by default",
    },
    "verbose": {"more": ", by the live view, or by lines of text in a batch job; on by default"},
    "mlflow": {**ALONE, "metavar": "[NAME]", "more": "; without it, in the current one"},
}
"""What is said of options in a cell besides, or is written in another way than by their type."""

_RESUMED: Mapping[str, Mapping[str, Any]] = {
    "epochs": {"more": ", with those that are done"},
    "checkpoint_every": {"when": "", "more": ""},
    "repartition_every": {"more": ""},
    "wait": {"more": ""},
    "learning_rate": {"more": ", by its variable"},
    "name": {"more": ""},
    "strategy": {"said": "what workers exchange, and with whom, from the next epoch on"},
    "combiner": {"said": "how the server merges; the run's combiner, if it is your own"},
    "sync": {"said": "who waits for whom"},
    "sync_interval": {"said": "batches between two exchanges; auto: by measurement"},
    "partitions": {"said": "partitions from the next epoch on"},
    "partitioner": {"said": "lays the rows out from the next epoch on"},
}
"""The same for a run that continues."""


def flag(name: str) -> str:
    """Return how an option is written in a cell."""
    return f"--{name.replace('_', '-')}"


def _kept(name: str) -> str:
    """Return what a resumed run says of an option that it keeps."""
    try:
        for_resume({name: True})
    except ConfigError as error:
        return f"{flag(name)}: {str(error).partition(': ')[2]}"
    return ""


KEPT = {flag(name): _kept(name) for name, option in OPTIONS.items() if option.kept}
"""What ``%tos_resume`` says of options that a run keeps."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Most used": ("--data", "--epochs", "--batch-size", "--validation-data", "-o"),
    "The data": (
        *("--features", "--label", "--weight", "--on-bad"),
        *("--shuffle", "--no-shuffle", "--partitions", "--partitioner"),
        *("--repartition-every", "--seed"),
    ),
    "How workers train and exchange": (
        *("--learning-rate", "--strategy", "--combiner", "--sync", "--sync-interval", "--codec"),
        *("--optimizer-state", "--non-finite", "--class-weight"),
    ),
    "What goes along with the run": (
        *("--validation-split", "--validation-every", "--validation-on", "--keep-best"),
        *("--callbacks", "--on-callback-error", "--stop-when"),
        *("--tensorboard", "--histograms", "--mlflow", "--sinks"),
    ),
    "Checkpoints": ("--checkpoint-dir", "--checkpoint-every", "--max-checkpoints"),
    "The cell": (
        *("--name", "--wait", "--verbose", "--no-verbose", "--on-interrupt", "--if-running"),
    ),
    "What is trained, where the cell does not show it": (
        *("--model", "--fetch", "--feeds", "--loss", "--metrics", "--params", "--feed-dict"),
    ),
}
"""Of the help of ``%%tos_train``."""


def _option(parser: Parser, option: Option, **others: Any) -> Parser:
    """Add one of the options of `tos_notebook.training.options`, with its line of help.

    Parameters
    ----------
    parser : Parser
    option : Option
    **others
        As for `Parser.add`; `when` and `more` are said before and after the line, `said` instead.
    """
    written = {"choices": option.words} if option.words else _PLAIN[option.plain]
    settings = {**written, **_SPELLED.get(option.name, {}), **others}
    said = settings.pop("said", option.help)
    text = f"{settings.pop('when', '')}{said}{settings.pop('more', '')}"
    default = settings.get("told")
    # Whether a bool is on, its flags say.
    if not (default in (None, "", ()) or isinstance(default, bool) or "by default" in text):
        text += f"; {str(default).replace('%', '%%')} by default"
    flags = [flag(name) for name in (option.name, option.alias) if name]
    return parser.add(*flags, help=text, **settings)


def _train() -> Parser:
    parser = Parser("%%tos_train", groups=GROUPS)
    _add_data(parser)
    for option in OPTIONS.values():
        _option(parser, option, told=option.default)
    text = "leave the rows in their partitions and in their order"
    parser.add("--no-shuffle", dest="shuffle", action="store_const", const=False, help=text)
    _add_quiet(parser)
    _add_program(parser)
    text = f"variable for the run, {OUTPUT} by default; any other name also names the run"
    parser.add("-o", "--output", type=identifier, **NAME, help=text)
    text = "what interrupting --wait does to the run; leave by default"
    parser.add("--on-interrupt", choices=ON_INTERRUPT, help=text)
    text = "what to do if the run that this cell started before is still active; ask by default"
    return parser.add("--if-running", choices=IF_RUNNING, help=text)


def _add_quiet(parser: Parser) -> None:
    text = "show nothing; %%tos_view shows the run later"
    parser.add("--no-verbose", dest="verbose", action="store_const", const=False, help=text)


def _add_data(parser: Parser, text: str = "") -> None:
    text = text or (
        "training data: an RDD of (feature, label), a tuple of arrays, arrays by name, one for "
        "each feed: x,y, or a DataFrame, of which --features and --label name the columns"
    )
    parser.add("--data", kind="data", **NAME, help=text)
    text = "DataFrame: the column that says how much a row counts; for a Keras model"
    parser.add("--weight", **NAME, help=text)
    text = (
        "DataFrame: what a row with a null or NaN in it does: end the run (by default), or be left "
        "out"
    )
    parser.add("--on-bad", choices=RAISE_OR_SKIP, default="raise", help=text)


def _add_program(parser: Parser) -> None:
    text = "a compiled Keras model, or a captured program; the cell's own by default"
    parser.add("--model", kind="model", **NAME, help=text)
    text = "graph: what one step runs; train_step, train_op or the only optimizer by default"
    parser.add("--fetch", kind="graph", **NAMES, help=text)
    text = (
        "graph: placeholders in the order of a record's fields, or a list of them; feed_name_list "
        "or all placeholders by default"
    )
    parser.add("--feeds", kind="feeds", **NAMES, help=text)
    text = "graph: a scalar; loss, cross_entropy or cost by default"
    parser.add("--loss", kind="graph", **NAME, help=text)
    parser.add("--metrics", kind="graph", **NAMES, help="graph: further scalars to report")
    text = (
        "graph: variables that are synchronized, or a list of them; param_list or all trainable "
        "ones by default"
    )
    parser.add("--params", kind="params", **NAMES, help=text)
    text = "graph: constants for placeholders that no record feeds, as a dict"
    parser.add("--feed-dict", kind="dict", **NAME, help=text)


def _cluster() -> Parser:
    parser = Parser("%%tos_cluster")
    text = "nodes that train, besides a chief; %(default)s by default"
    parser.add("--workers", default=1, **COUNT, help=text)
    text = "parameter servers; none by default"
    parser.add("--ps", default=0, **COUNT, help=text)
    parser.add("--chief", action="store_true", help="one more node, which leads the workers")
    parser.add("--evaluator", action="store_true", help="one more node, which evaluates")
    text = (
        "what Spark feeds the chief and the workers: an RDD, a DataFrame, an array, or arrays of "
        "equal length: x,y; main reads it with ctx.get_data_feed()"
    )
    parser.add("--feed", kind="data", **NAME, help=text)
    text = "with --feed: how often all rows are fed; 1 by default"
    parser.add("--epochs", **COUNT, help=text)
    text = "with --feed: seconds in which a node may take no row; 600 by default"
    parser.add("--feed-timeout", **SECONDS, help=text)
    text = "a folder of event files that the first worker's TensorBoard shows"
    parser.add("--tensorboard", metavar="DIR", help=text)
    text = (
        "how often the whole cluster begins again after a node has failed or was lost: main then "
        "restores what it has saved, and gets the rows again; %(default)s by default"
    )
    parser.add("--restarts", default=0, **COUNT, help=text)
    text = (
        "GPUs of each node: those that Spark gives its task, else free ones of its host; 0 for "
        "none. By default what Spark gives, else all"
    )
    parser.add("--gpus", **COUNT, help=text)
    text = "variable that main gets as args; None by default"
    parser.add("--args", kind="variable", **NAME, help=text)
    text = (
        "let the nodes listen beyond this machine: TensorFlow's own protocol neither encrypts nor "
        "asks who connects"
    )
    parser.add("--insecure-network", action="store_true", help=text)
    text = "seconds for all nodes to begin; %(default)g by default"
    parser.add("--timeout", default=120.0, **SECONDS, help=text)
    text = f"variable for the cluster; {CLUSTER_OUTPUT} by default"
    parser.add("-o", "--output", type=identifier, **NAME, help=text)
    parser.add("--wait", action="store_true", help="block until the cluster has ended")
    text = "what interrupting --wait does to the cluster"
    parser.add("--on-interrupt", choices=ON_INTERRUPT, default="leave", help=text)
    text = "what to do if the cluster that this cell started before is still active"
    return parser.add("--if-running", choices=IF_RUNNING, default="ask", help=text)


def _connect() -> Parser:
    parser = Parser("%tos_connect")
    text = (
        "local[2], spark://host:7077, yarn or k8s://...; by default the running Spark, else the "
        "configured master, else local[*]"
    )
    parser.add("master", nargs="?", kind="master", help=text)
    text = "settings of a Spark that is started; put the master before them"
    parser.add("--conf", nargs="+", action="extend", default=[], **PAIR, help=text)
    text = (
        "send all executors what they need of this package; without it, it is sent where it is "
        "missing, and another version there is an error"
    )
    parser.add("--ship-package", action="store_true", help=text)
    text = "seconds to wait for executors to have free cores and to import TensorFlow"
    parser.add("--timeout", metavar="SECONDS", type=number, default=WARM_UP_TIMEOUT, help=text)
    text = "do not import TensorFlow on the executors now"
    return parser.add("--no-warm-up", dest="warm_up", action="store_false", help=text)


def _resume() -> Parser:
    parser = Parser("%tos_resume", "hdfs:///runs/run-20261122-010203-3f9a1c", elsewhere=KEPT)
    text = "a saved run's folder; %%tos_unpause ends a pause"
    parser.add("uri", metavar="URI", help=text)
    _add_data(parser, "the run's training data, if they were not arrays")
    text = "the run's model, made again, or a captured program: it gets the weights"
    parser.add("--model", kind="model", **NAME, help=text)
    text = "shards that have the parameters from now on, if the run has some; as before by default"
    parser.add("--shards", **COUNT, help=text)
    for option in RESUMABLE.values():
        _option(parser, option, **_RESUMED.get(option.name, {}))
    _add_quiet(parser)
    text = "what interrupting --wait does to the run"
    parser.add("--on-interrupt", choices=ON_INTERRUPT, default="leave", help=text)
    text = f"variable for the run; {OUTPUT} by default"
    return parser.add("-o", "--output", type=identifier, **NAME, help=text)


def _command(action: Action) -> Parser:
    example = next(filter(None, action.examples), "")
    clusters = action.command is Command.STOP
    parser = _steering(action.magic, example, clusters, alone=not action.arguments)
    if action.is_settings:
        *names, last = (f"{name}=..." for name in SETTINGS)
        text = f"{', '.join(names)} or {last}, or several of them"
        return parser.add("settings", kind=action.magic, nargs="+", **PAIR, help=text)
    for argument in action.arguments:
        flag = f"--{argument.name.replace('_', '-')}" if argument.flag else argument.name
        alone = {"nargs": "?"} if argument.optional and not argument.flag else {}
        value = {"metavar": argument.metavar, "type": TYPES[argument.kind]}
        parser.add(flag, kind=argument.offers, **alone, **value, help=argument.help)
    return parser


def _steering(name: str, example: str = "", clusters: bool = False, alone: bool = False) -> Parser:
    """Return the options of a magic of a run, which stands alone if it takes nothing else."""
    kind, text = "run", "a run's variable, name or number; the newest by default"
    if clusters:
        kind = "either"
        text += ". Or a TensorFlow cluster's variable; the newest by default if there is no run"
    parser = Parser(f"%{name}", example)
    if alone:
        # Suppressed: nothing there does not undo what --run says.
        parser.add("run", kind=kind, nargs="?", default=SUPPRESS, **NAME, help=text)
        text = "the same"
    return parser.add("--run", kind=kind, **NAME, help=text)


def _all() -> dict[str, Parser]:
    shown = ("tos_status", "tos_view")
    parsers = {name: _steering(name, clusters=True, alone=True) for name in shown}
    parsers |= {action.magic: _command(action) for action in ACTIONS.values()}
    parsers |= {"tos_connect": _connect(), "tos_train": _train(), "tos_resume": _resume()}
    parsers["tos_cluster"] = _cluster()
    text = "a directory of saved runs; this notebook's runs by default"
    parsers["tos_runs"] = Parser("%tos_runs").add("uri", nargs="?", metavar="URI", help=text)
    text = "two runs or more, each by its variable, name or number"
    compared = Parser("%tos_compare", "first second")
    parsers["tos_compare"] = compared.add("runs", kind="run", nargs="+", metavar="RUN", help=text)
    text = "a folder of event files; by default the run's own"
    board = _steering("tos_tensorboard")
    parsers["tos_tensorboard"] = board.add("uri", nargs="?", metavar="URI", help=text)
    text = "new defaults; without any, they are all shown"
    config = Parser("%tos_config")
    parsers["tos_config"] = config.add("settings", kind="default", nargs="*", **PAIR, help=text)
    return parsers


PARSERS = _all()
"""By the magic's name."""
