"""The options of every magic."""

from __future__ import annotations

import argparse
from typing import Any

from .options import Parser, identifier, pair, whole

ON_INTERRUPT = ("leave", "stop")
IF_RUNNING = ("ask", "attach", "replace", "stop")
NON_FINITE = ("raise", "skip")

NAME: dict[str, Any] = {"metavar": "NAME"}
NAMES: dict[str, Any] = {"metavar": "NAMES"}
COUNT: dict[str, Any] = {"metavar": "N", "type": whole}
PAIR: dict[str, Any] = {"metavar": "NAME=VALUE", "type": pair}
COMBINER: dict[str, Any] = {
    "kind": "combiner",
    "help": "how the server merges: a built-in's name, or a variable that holds a combiner",
    **NAME,
}


def _train() -> Parser:
    parser = Parser("%%tos_train")
    _add_training(parser)
    _add_program(parser)
    text = "variable for the run; %(default)s by default"
    parser.add("-o", "--output", type=identifier, default="run", **NAME, help=text)
    parser.add("--wait", action="store_true", help="block until the run has ended")
    text = "what interrupting --wait does to the run"
    parser.add("--on-interrupt", choices=ON_INTERRUPT, help=text)
    text = "what to do if the run that this cell started before is still active"
    return parser.add("--if-running", choices=IF_RUNNING, help=text)


def _add_training(parser: Parser) -> None:
    text = (
        "training data: an RDD of (feature, label), a tuple of arrays, or arrays by name, one for "
        "each feed: x,y"
    )
    parser.add("--data", kind="data", **NAME, help=text)
    text = "data of the same form, evaluated after each epoch"
    parser.add("--validation", kind="data", **NAME, help=text)
    parser.add("--epochs", **COUNT, help="passes over the data")
    parser.add("--batch-size", **COUNT, help="rows of one batch")
    parser.add("--sync-interval", **COUNT, help="batches between two exchanges")
    parser.add("--combiner", **COMBINER)
    text = "epochs between two random repartitions of the data"
    parser.add("--repartition-every", **COUNT, help=text)
    text = "for arrays: partitions; as many as Spark runs tasks at once by default"
    parser.add("--partitions", **COUNT, help=text)
    parser.add("--seed", **COUNT, help="of the order of rows and of repartitions")
    text = "whether each epoch takes a partition's rows in a new order"
    parser.add("--shuffle", action=argparse.BooleanOptionalAction, help=text)
    text = "what an update with NaN or infinity does: end the run, or be left out"
    parser.add("--non-finite", choices=NON_FINITE, help=text)


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
        "graph: variables that are synchronised, or a list of them; param_list or all trainable "
        "ones by default"
    )
    parser.add("--params", kind="params", **NAMES, help=text)
    text = "graph: the variable that %%tos_set learning_rate=... sets"
    parser.add("--learning-rate", kind="params", **NAME, help=text)
    text = "graph: constants for placeholders that no record feeds, as a dict"
    parser.add("--feed-dict", kind="dict", **NAME, help=text)


def _connect() -> Parser:
    parser = Parser("%tos_connect")
    text = (
        "local[2], spark://host:7077, yarn or k8s://...; by default the running Spark, else the "
        "configured master, else local[*]"
    )
    parser.add("master", nargs="?", help=text)
    text = "settings of a Spark that is started; put the master before them"
    parser.add("--conf", nargs="+", action="extend", default=[], **PAIR, help=text)
    text = "do not import TensorFlow on the executors now"
    return parser.add("--no-warm-up", dest="warm_up", action="store_false", help=text)


def _steering(name: str) -> Parser:
    text = "a run's variable or number; the newest by default"
    return Parser(f"%{name}").add("--run", kind="run", **NAME, help=text)


def _all() -> dict[str, Parser]:
    plain = ("tos_status", "tos_view", "tos_pause", "tos_resume", "tos_stop")
    parsers = {name: _steering(name) for name in plain}
    parsers |= {"tos_connect": _connect(), "tos_train": _train(), "tos_runs": Parser("%tos_runs")}
    text = "of the next epochs"
    parsers["tos_repartition"] = _steering("tos_repartition").add("partitions", **COUNT, help=text)
    parsers["tos_combiner"] = _steering("tos_combiner").add("combiner", **COMBINER)
    text = "learning_rate=... or sync_interval=..., or both"
    setting = _steering("tos_set")
    parsers["tos_set"] = setting.add("settings", kind="setting", nargs="+", **PAIR, help=text)
    text = "new defaults; without any, they are all shown"
    config = Parser("%tos_config")
    parsers["tos_config"] = config.add("settings", kind="default", nargs="*", **PAIR, help=text)
    return parsers


PARSERS = _all()
"""By the magic's name."""
