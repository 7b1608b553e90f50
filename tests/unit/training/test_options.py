"""Every option has one default, one check and one line of help, wherever users may give it."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, get_type_hints

import numpy as np
import pytest

import tos_notebook as tos
from tos_notebook.cluster.connect import connect
from tos_notebook.combiners import DiLoCo, Median
from tos_notebook.errors import ConfigError, TosError
from tos_notebook.magics import TosMagics
from tos_notebook.magics.parsers import PARSERS
from tos_notebook.ml import TensorEstimator
from tos_notebook.ml.params import OFFERED
from tos_notebook.steering.machine import Command
from tos_notebook.strategies import AllReduce, ParameterServer, TreeAggregate
from tos_notebook.telemetry.compare import compare
from tos_notebook.theory import cost
from tos_notebook.training.checkpoint.contents import Origin
from tos_notebook.training.options import (
    KINDS,
    OPTIONS,
    RESUMABLE,
    CallOptions,
    ObserverOptions,
    Option,
    RunOptions,
    SessionOptions,
    named,
    options_of,
    pick,
)
from tos_notebook.training.run import Run
from tos_notebook.training.saved import SavedRun
from tos_notebook.training.session import TrainingSession

PLACES = {
    "self",
    "data",
    "spark",
    "program",
    "server_host",
    "server_port",
}
"""Parameters that say where and on what, not how."""


DEFAULTS = {name: option.default for name, option in OPTIONS.items()}

OVERRIDES = {name: each.optional for name, each in options_of(SessionOptions).items()}
"""Those of a session in a run: without, the session's own."""


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (TrainingSession, options_of(SessionOptions)),
        (TrainingSession.start, OPTIONS | OVERRIDES),
    ],
)
def test_parameters_are_the_options(
    function: Callable[..., Any], options: dict[str, Option]
) -> None:
    """What Shift-Tab shows: name, type, default and text of each, and the types as objects."""
    found = inspect.signature(function).parameters
    expected = {n: (each.default, each.annotation) for n, each in options.items()}
    places = PLACES if function is not TrainingSession else {*PLACES, "checkpoint_dir"}
    others = places | {each.alias for each in options.values()}
    assert {n: (p.default, p.annotation) for n, p in found.items() if n not in others} == expected
    by_keyword = {n for n, p in found.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}
    assert expected.keys() - by_keyword <= {"epochs"}
    hints = get_type_hints(function.__init__ if isinstance(function, type) else function)
    assert found.keys() <= {"self", *hints}
    for name in expected:
        assert f"{name} : {options[name].takes}" in (inspect.getdoc(function) or "")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TrainingSession(None), "__init__() missing 1 required positional argument: 'pro"),
        (
            lambda: TrainingSession(None, None, "ps"),
            "__init__() takes 3 positional arguments but 4",
        ),
    ],
)
def test_other_arguments_are_refused_as_python_does(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError) as raised:
        call()
    assert f".{message}" in str(raised.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TrainingSession(None, None, strateg="ps"), "TrainingSession: .* mean strategy"),
        (lambda: TrainingSession.start(None, None, epoch=1), "TrainingSession.start: .* epochs"),
        (lambda: TrainingSession(None, None, lr=1), "TrainingSession: .* 'lr'. help.Tr"),
        (lambda: TensorEstimator(epoch=1), "TensorEstimator: unknown option 'epoch'.*mean epochs"),
        (lambda: TensorEstimator(featureCol="x"), "'featureCol'. Did you mean featuresCol"),
        (lambda: Run.set(None, lr=1), "set: unknown option 'lr'. Did you mean learning_rate"),
        (
            lambda: Run.set(None, strategy="ps"),
            "It changes at the end of the epoch: run.swap_strategy",
        ),
        (lambda: Run.set(None, batch_size=9), "'batch_size'. It stays as it is while a run trains"),
        (
            lambda: Run.set(None, codec="int8", compression="bf16"),
            "compression: expected it or cod",
        ),
        (lambda: Run.swap_strategy(None, "ps", synch="bsp"), "swap_strategy: .* mean sync"),
        (lambda: Run.wait_for(None, milestone=1), "wait_for: .* mean milestones"),
        (
            lambda: Run.wait_for(None, 100),
            r"^wait_for: expected options by name, such as wait_for\(milestones=100\); got 100 "
            "without a name. It takes milestones, epochs, workers, each, timeout.$",
        ),
        (
            lambda: ParameterServer(1, 0, True, "x"),
            r"^ParameterServer: expected fewer values; got 'x' without a name. help\(Para",
        ),
        (lambda: Run.repartition(None, partition=1), "repartition: .* mean partitions"),
        (lambda: AllReduce(algorithms="ring"), "AllReduce: .* mean algorithm"),
        (lambda: TreeAggregate(frac=0.5), "TreeAggregate: .* mean fraction"),
        (lambda: ParameterServer(stripe=1), "ParameterServer: .* mean stripe_bytes"),
        (lambda: Median(kk=3), "Median: unknown option 'kk'. Did you mean k"),
        (lambda: DiLoCo(learning_rate=3), "DiLoCo: unknown option 'learning_rate'."),
        (lambda: connect("local[2]", conf={}), "connect: .* mean config"),
        (lambda: cost(1, batch_secs=1), "cost: .* mean batch_seconds"),
        (lambda: compare(x=1), "compare: unknown option 'x'. It takes no options."),
    ],
)
def test_an_option_that_does_not_exist_is_named_with_the_one_that_is_meant(
    call: Callable[[], Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        call()


def test_a_change_of_nothing_lists_all_that_can_be_changed() -> None:
    steered = SimpleNamespace(parts=None, strategy=SimpleNamespace(commands={Command.SET}))
    with pytest.raises(ConfigError, match="got none of them") as refused:
        Run.set(SimpleNamespace(lifecycle=steered))  # type: ignore[arg-type]
    settings = {*inspect.signature(Run.set).parameters} - {"self", "compression", "num_workers"}
    assert settings <= {*re.findall(r"\w+", str(refused.value))}


def test_an_option_without_a_default_is_named_where_it_is_left_out() -> None:
    with pytest.raises(ConfigError, match=r"cost: expected batch_seconds=\.\.\., which has no def"):
        cost(1)


def test_an_estimator_has_the_defaults() -> None:
    estimator = TensorEstimator()
    parameters = inspect.signature(vars(TensorEstimator)["__init__"].__wrapped__).parameters
    for option, each in OFFERED.items():
        name = each.name
        value = estimator.getOrDefault(name) if estimator.isDefined(name) else None
        assert value == parameters[name].default == DEFAULTS[option]


def test_the_magics_have_the_defaults() -> None:
    traits = TosMagics.class_traits(config=True)
    texts = {"validation_data", "checkpoint_dir", "checkpoint_every"}
    shared = (traits.keys() & DEFAULTS.keys()) - texts
    assert {n: traits[n].default_value for n in shared} == {n: DEFAULTS[n] for n in shared}
    own = {
        "data",
        "validation_data",
        "checkpoint_dir",
        "checkpoint_every",
        "on_interrupt",
        "if_running",
    }
    assert shared == traits.keys() - own


def test_the_magics_have_a_flag_for_each_option() -> None:
    flags = {name: f"--{name.replace('_', '-')}" for name in OPTIONS}
    train, resumed = (set(PARSERS[name].flags) for name in ("tos_train", "tos_resume"))
    left_out = {name for name, flag in flags.items() if flag not in train}
    assert left_out == set()
    assert {name for name in RESUMABLE if flags[name] not in resumed} == set()


def test_a_checkpoint_has_all_that_a_run_was_asked_for() -> None:
    """But for what is in its settings, and in the first layout of the data."""
    run = RunOptions(
        9, shuffle=False, repartition_every=2, participation=0.5, seed=5, stall_timeout=7.0,
        worker_timeout=None, checkpoint_every="30s", max_checkpoints=8, name="wide",
        validation_split=0.25,
    ).checked()  # fmt: skip
    session = SessionOptions(batch_size=3, non_finite="skip", optimizer_state="reset")
    columns = (("float32", (2,)),)
    begun = Origin("run-1", session, run, {}, 2, columns, 4, True, "0" * 32, 1.5)
    assert Origin.from_json(begun.to_json()) == begun
    unsaved = OPTIONS.keys() - begun.asked.keys() - options_of(ObserverOptions, CallOptions).keys()
    of_settings = {"strategy", "combiner", "sync_interval", "sync", "codec"}
    assert unsaved == of_settings | {"partitions", "partitioner"}


def test_names_are_unique_and_help_is_plain() -> None:
    assert len(OPTIONS) == sum(len(fields(kind)) for kind in KINDS)
    for text in (option.help for option in OPTIONS.values()):
        assert not set("%\n") & set(text)
        assert not text.endswith(".")
        assert len(text) <= 100


def test_defaults_are_in_range() -> None:
    checked = {k: v for kind in KINDS for k, v in vars(kind().checked()).items()}
    changed = {name for name in DEFAULTS if checked[name] != DEFAULTS[name]}
    assert changed == {"strategy", "combiner", "sync", "sync_interval", "codec"}


def test_validation_data_come_from_one_place() -> None:
    with pytest.raises(ConfigError, match="validation_split: expected it or validation_data; got"):
        ObserverOptions(validation_data=np.ones(3)).checked(0.5)
    found = ObserverOptions(validation_every=5, keep_best="val_loss").checked(0.5)
    assert (found.validation_every is None, found.keep_best) == (False, "val_loss:min")


def test_a_name_has_no_space_around_it() -> None:
    assert RunOptions(name=" wide net ").checked().name == "wide net"
    assert RunOptions().checked().name is None


def test_options_are_picked_by_name() -> None:
    given = {"epochs": 3, "tensorboard": "logs", "sync": "bsp", "spark": None}
    assert pick(RunOptions, given) == RunOptions(epochs=3)
    assert pick(ObserverOptions, given).tensorboard == "logs"
    assert pick(SessionOptions, given).checked().combiner.name == "fedavg"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (RunOptions(shuffle=2), "shuffle: expected True, False or 'partitions', got 2"),
        (RunOptions(epochs=0), "epochs: expected a whole number of at least 1, got 0"),
        (RunOptions(shuffle="rows"), "shuffle: expected True, False or 'partitions', got 'rows'"),
        (RunOptions(seed=-1), "seed: expected"),
        (RunOptions(participation=1.5), "participation: expected a number above 0 and up to 1"),
        (RunOptions(worker_timeout=0), "worker_timeout: expected a finite number above 0"),
        (RunOptions(checkpoint_every="often"), "checkpoint_every: expected"),
        (RunOptions(max_checkpoints=0), "max_checkpoints: expected"),
        (RunOptions(validation_split=0), "validation_split: expected a number above 0 and below 1"),
        (RunOptions(validation_split=1.0), "validation_split: expected .* got 1.0"),
        (RunOptions(validation_split="10 %"), "validation_split: expected"),
        (RunOptions(name=""), "name: expected 1 to 60 characters of one line"),
        (RunOptions(name="a\nb"), "name: expected 1 to 60 characters of one line"),
        (RunOptions(name="x" * 61), "name: expected 1 to 60 characters of one line"),
        (RunOptions(name="12"), "not a number and without a dash at the start; got '12'"),
        (RunOptions(name="-o"), "not a number and without a dash at the start; got '-o'"),
        (RunOptions(name=5), "name: expected 1 to 60 characters .* got 5"),
        (SessionOptions(batch_size=0), "batch_size: expected"),
        (SessionOptions(non_finite="ignore"), "non_finite: expected one of raise, skip"),
        (ObserverOptions(validation_on="executors"), "validation_on: .* give validation"),
        (ObserverOptions(keep_best="val_loss"), "keep_best: .* find the best val_loss; give"),
        (ObserverOptions(keep_best="loss"), "keep_best: expected a value of the validation"),
        (ObserverOptions(keep_best="val_f1"), "keep_best: .* such as 'val_f1:max'; got 'val_f1'"),
        (ObserverOptions(keep_best=True), "keep_best: expected a value of the validation"),
        (ObserverOptions(validation_every=5), "validation_every: .* every 5; give validation"),
        (
            ObserverOptions(validation_data=np.ones(3), validation_on="moon"),
            "one of driver, executors",
        ),
        (ObserverOptions(on_callback_error="disable"), "on_callback_error: .* one of raise, skip"),
    ],
)
def test_what_is_out_of_range_is_refused(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        options.checked()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epoch": 3}, "unknown option 'epoch'. Did you mean epochs?"),
        ({"xyz": 3}, "help(resume) says what it takes."),
        ({"batchsize": 4}, "resume: unknown option 'batchsize'. Did you mean batch_size?"),
        ({"wait": 3}, "wait: expected True or False, got 3"),
        ({"seed": 3}, "seed: a resumed run keeps the one that it has, by which its rows have"),
        ({"sync_interval": 0}, "sync_interval: expected a whole number of at least 1"),
        ({"validation_every": "soon"}, "validation_every: expected a time"),
    ],
)
def test_a_resumed_run_takes_some_options(given: dict[str, Any], message: str) -> None:
    """What it does not take is told before anything is read."""
    with pytest.raises(ConfigError) as raised:
        tos.resume("file:///none", **given)
    assert message in str(raised.value)


def test_completion_finds_options_by_name() -> None:
    started = inspect.signature(TrainingSession.start).parameters.keys()
    assert inspect.signature(TrainingSession.run).parameters.keys() == started
    assert "validation_data" in inspect.signature(tos.fit).parameters
    saved = inspect.signature(SavedRun.resume).parameters
    assert {*RESUMABLE, "data", "spark", "program", "combiner"} <= saved.keys()
    assert "batch_size" in inspect.signature(Run.predict).parameters


def test_what_a_resumed_run_takes_is_told() -> None:
    text, parameters = inspect.getdoc(tos.resume) or "", inspect.signature(tos.resume).parameters
    assert [name for name in RESUMABLE if f"\n{name} : " not in text] == []
    left_as_it_was = options_of(SessionOptions, RunOptions)
    assert {name: parameters[name].default for name in RESUMABLE} == {
        name: None if name in left_as_it_was else DEFAULTS[name] for name in RESUMABLE
    }


@pytest.mark.parametrize("more", [{"worker_timeout": None}, tos.federated(2, 1) | {"seed": 3}])
def test_fit_passes_on_what_it_is_given_none_too(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    """With None a worker that stands still never loses its place; without it, it does."""
    given: dict[str, Any] = {}

    def train_once(spark: Any, model: Any, settings: Any, data: Any, options: Any) -> None:
        given.update(settings, **options)

    monkeypatch.setattr("tos_notebook.surface.train_once", train_once)
    tos.fit(object(), (), spark=object(), wait=False, verbose=False, **more)
    assert {name: given[name] for name in more} == more


@pytest.mark.parametrize("sinks", [print, None, [print, 3]])
def test_sinks_that_are_no_list_of_functions_are_refused_in_words(sinks: Any) -> None:
    for call in (
        lambda: ObserverOptions(sinks=sinks).checked(),
        lambda: tos.fit(object(), (), wait=False, sinks=sinks),
    ):
        with pytest.raises(ConfigError, match=r"sinks: expected a list of functions .* got .*"):
            call()


@pytest.mark.parametrize("sinks", [print, None])
def test_a_run_that_shows_how_far_it_is_refuses_such_sinks_too(sinks: Any) -> None:
    with pytest.raises(ConfigError, match=r"sinks: expected a list of functions"):
        TrainingSession.run(object(), (), sinks=sinks, verbose=True)


def test_the_parts_of_federated_options_have_none_too() -> None:
    options = tos.federated(2, 1)
    options["worker_timeout"] = None
    assert options.run["worker_timeout"] is None


def test_changed_federated_options_have_their_parts() -> None:
    options = tos.federated(2, 1) | {"batch_size": 10, "seed": 3}
    assert (options.session["batch_size"], options.run["seed"]) == (10, 3)
    assert options.run["partitions"] == 2


@pytest.mark.parametrize("name", ["partitions", "num_workers"])
def test_an_option_out_of_range_is_named_as_it_was_given(name: str) -> None:
    """By its other name, too: who reads the message looks for what was typed."""
    calls = (
        lambda: tos.fit(None, (), **{name: 0}),
        lambda: TrainingSession.start(None, None, **{name: 0}),  # type: ignore[call-arg]
        lambda: Run.set(None, **{name: 0}),
    )
    for call in calls[: 2 if name == "partitions" else 3]:
        with pytest.raises((ConfigError, AttributeError), match=f"^{name}: expected a whole"):
            call()


@pytest.mark.parametrize("value", [True, False, 0, 1, 2, "auto"])
def test_verbose_may_be_what_keras_takes(value: Any) -> None:
    assert pick(CallOptions, {"verbose": value}).checked().verbose is (value not in (False, 0))


def test_of_two_names_of_an_option_one_may_be_none() -> None:
    """As where a program passes on what it was given."""
    assert named("fit", {"num_workers": None, "partitions": 2}) == {"partitions": 2}
    assert named("fit", {"num_workers": 2, "partitions": None}) == {"partitions": 2}
    assert named("fit", {"num_workers": None}) == {"partitions": None}


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (TrainingSession, {"compression"}),
        (TrainingSession.start, {"compression", "num_workers"}),
        (TrainingSession.run, {"compression", "num_workers"}),
        (Run.set, {"compression", "num_workers"}),
    ],
)
def test_signatures_show_the_other_names_of_options(function: Any, names: set[str]) -> None:
    assert names <= set(inspect.signature(function).parameters)


@pytest.mark.parametrize("name", ["partitions", "num_workers"])
def test_a_resumed_run_takes_an_option_by_whatever_name_it_is_given(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: expected a whole number of at least 1, got 0"):
        tos.resume("hdfs:///runs/one", **{name: 0})
    with pytest.raises(ConfigError, match="num_workers: expected it or partitions"):
        tos.resume("hdfs:///runs/one", partitions=2, num_workers=2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {},
            "Starting Spark ...\nconnects\nSpark has started. The model is ",
        ),
        ({"verbose": False}, ""),
        ({"spark": object()}, ""),
    ],
)
def test_fit_says_that_spark_starts_before_it_does(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: dict[str, Any],
    said: str,
) -> None:
    """It takes seconds, in which a cell would say nothing."""
    before: list[str] = []
    monkeypatch.setattr("tos_notebook.surface.active_context", lambda: None)
    monkeypatch.setattr(
        "tos_notebook.surface.require_trainable", lambda *given: (given[0], given[2], None)
    )
    monkeypatch.setattr(
        "tos_notebook.surface.connect", lambda warm_up: sys.stdout.write("connects\n")
    )
    monkeypatch.setattr(
        "tos_notebook.surface.train_once", lambda *_: before.append(capsys.readouterr().out)
    )
    tos.fit(object(), (), wait=False, **options)
    (found,) = before
    assert found.startswith(said)
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"sync": "x"}, {"keep_best": "val_loss"}, {"features": "x"}]
)
def test_fit_refuses_options_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any]
) -> None:
    monkeypatch.setattr("tos_notebook.surface.train_once", lambda *_: pytest.fail("It started."))
    with pytest.raises(ConfigError, match=f"^{next(iter(wrong))}"):
        tos.fit(object(), (), verbose=False, **wrong)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: TrainingSession.start(None, None, server_port=1),
            "TrainingSession.start: unknown option 'server_port'. It "
            "belongs to the session: TrainingSession(..., "
            "server_port=...).",
        ),
        (
            lambda: TrainingSession(None, None, num_workers=2),
            "TrainingSession: unknown option 'num_workers'. It "
            "belongs to a run: session.start(data, num_workers=...), "
            "or tos.fit(...).",
        ),
        (
            lambda: tos.resume("file:///none", batch_size=20),
            "batch_size: a resumed run keeps the one that it has, in which its batches are "
            "counted. To train on with another, start a run with its parameters: "
            "tos.resume(uri, program=model).stop(), then tos.fit(model, data, batch_size=...).",
        ),
        (
            lambda: tos.resume("file:///none", checkpoint_dir="hdfs:///other"),
            "checkpoint_dir: a resumed run keeps the one that it has, where further checkpoints "
            "go. To train on with another, start a run with its parameters: "
            "tos.resume(uri, program=model).stop(), then tos.fit(model, data, checkpoint_dir=...).",
        ),
        (
            lambda: tos.resume("file:///none", optimizer="adam"),
            "resume: unknown option 'optimizer'. It "
            "belongs to the model: model.compile(optimizer=...).",
        ),
        (
            lambda: tos.fit(None, (), optimizer="adam"),
            "fit: unknown option 'optimizer'. It "
            "belongs to the model: model.compile(optimizer=...).",
        ),
        (
            lambda: tos.fit(None, (), patience=3),
            "fit: unknown option 'patience'. It "
            "belongs to a rule that ends the run: "
            "callbacks=[EarlyStopping(patience=3)], or "
            "stop_when=tos.conditions.no_improvement(patience=3).",
        ),
        (
            lambda: tos.fit(None, (), sample_weight=[1.0]),
            "fit: unknown option 'sample_weight'. It "
            "belongs to the rows: tos.fit(tos.capture(model, weights=True), "
            "(x, y, weights)), or tos.columns(df, ..., weight=...).",
        ),
        (
            lambda: tos.fit(None, (), workers=2),
            "fit: unknown option 'workers'. It is num_workers here.",
        ),
        (
            lambda: tos.fit(None, None, keep=2),
            "fit: unknown option 'keep'. It is max_checkpoints here, with checkpoint_dir.",
        ),
        (
            lambda: tos.fit(None, None, directory="runs"),
            "fit: unknown option 'directory'. It is checkpoint_dir here.",
        ),
        (
            lambda: tos.fit(None, (np.ones(2), np.ones(2)), 2, 32),
            "fit: expected options by name, such as tos.fit(model, (x, y), epochs=5, batch_size=32"
            "); got 32 without a name.",
        ),
        (
            lambda: tos.fit(None, np.ones(2), np.ones(2), 2),
            "fit: expected the arrays as one tuple, such as tos.fit(model, (x, y), epochs=5); got "
            "them one by one.",
        ),
        (
            lambda: tos.resume(SimpleNamespace(uri=None)),
            "uri: expected a run with checkpoints; got namespace(uri=None), which has none. Give "
            "checkpoint_dir=... to the next one when it starts.",
        ),
        (
            lambda: tos.fit(None, (), validation_freq=2),
            "fit: unknown option 'validation_freq'. It "
            'is validation_every here: "2 epochs", "30s" or "50 milestones".',
        ),
        (
            lambda: tos.fit(None, (), max_staleness=3),
            "fit: unknown option 'max_staleness'. It "
            'is sync="ssp:3" here, counted in milestones.',
        ),
        (
            lambda: tos.fit(None, (), labelCol="digit"),
            "fit: unknown option 'labelCol'. It is label here, for a DataFrame.",
        ),
        (
            lambda: tos.fit(None, (), master="local[2]"),
            "fit: unknown option 'master'. It "
            'belongs to Spark: spark = tos.connect("local[4]"), before.',
        ),
        (
            lambda: tos.fit(None, (), shuffle="yes"),
            "shuffle: expected True, False or 'partitions', got 'yes'.",
        ),
        (
            lambda: tos.fit(None, (), foo=1),
            "fit: unknown option 'foo'. help(fit) says what it takes.",
        ),
        (
            lambda: tos.fit(None, (), sync_interval="often"),
            "sync_interval: expected a whole number of at least 1, or 'auto'; got 'often'.",
        ),
        (
            lambda: tos.fit(None, (), sync="allreduce"),
            "sync: expected who waits for whom, such as 'bsp'; got 'allreduce', which is a "
            "strategy. Give strategy='allreduce'.",
        ),
        (
            lambda: tos.fit(None, (), class_weight={0: 1.0}),
            "class_weight: expected a compiled Keras model with it, got NoneType. Capture the "
            "model with it: tos.capture(model, class_weight=...).",
        ),
    ],
)
def test_a_name_from_elsewhere_is_answered_with_its_place(
    call: Callable[[], Any], message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        call()
    assert str(raised.value) == message


ROWS = np.ones((4, 2)), np.ones(4)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tos.fit(None, *ROWS),
        lambda: tos.fit(None, *ROWS, epochs=1),
        lambda: tos.fit(None, *ROWS, 1),
        lambda: tos.fit(None, x=ROWS[0], y=ROWS[1]),
    ],
)
def test_arrays_one_by_one_are_answered_with_how_they_are_given(call: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError, match=r"expected the arrays as one tuple.*\(x, y\)"):
        call()


def test_completion_finds_the_names_of_other_libraries() -> None:
    assert {"num_workers", "compression"} <= inspect.signature(tos.fit).parameters.keys()


@pytest.mark.parametrize(
    ("owner", "name", "hint"),
    [
        (tos, "stop", "tos.conditions"),
        (tos, "Session", "Did you mean TrainingSession?"),
        (Run.__new__(Run), "resume", "run.unpause() ends a pause"),
        (Run.__new__(Run), "get_weights", "run.parameters()"),
        (Run.__new__(Run), "plot", "run.figure()"),
        (Run.__new__(Run), "histor", "Did you mean history?"),
    ],
)
def test_an_attribute_that_does_not_exist_is_answered_with_one_that_does(
    owner: Any, name: str, hint: str
) -> None:
    with pytest.raises(AttributeError, match=re.escape(hint)):
        getattr(owner, name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint_every": "30s"}, "checkpoint_every: expected a directory"),
        ({"partitioner": "labels"}, "partitioner: expected one of tos.partitioners, .* 'labels'"),
        ({"partitioner": tos.partitioners.RandomPartitioner}, "partitioner: expected one of"),
        ({"histograms": "yes"}, "histograms: expected True or False, got 'yes' of type str"),
        ({"shuffle": 3}, "shuffle: expected True, False or 'partitions', got 3"),
        ({"wait": "no"}, "wait: expected True or False, got 'no'"),
        ({"verbose": 3}, "verbose: expected True or False, got 3"),
        ({"learning_rate": "fast"}, "learning_rate: expected a number, a schedule such as"),
        ({"learning_rate": -1.0}, "learning_rate: expected a finite number above 0"),
        ({"stop_when": 3}, "stop_when: expected conditions"),
        ({"stop_when": "loss"}, "stop_when: expected"),
        ({"stop_when": "val_loss < 1"}, "stop_when: expected validation data"),
        ({"callbacks": "early"}, "callbacks: expected Keras callbacks"),
        ({"tensorboard": 3}, "tensorboard: expected a folder's URI or path, got 3"),
        ({"tensorboard": ""}, "tensorboard: expected a folder's URI or path, got ''"),
        ({"mlflow": 3}, "mlflow: expected True, the name of an experiment"),
        ({"mlflow": ""}, "mlflow: expected True, the name of an experiment"),
        ({"participation": 0.5, "strategy": "allreduce"}, "participation: expected strategy='ps'"),
        (
            {"strategy": TreeAggregate(fraction=0.5, sampler="mllib")},
            "shuffle: expected False with sampler='mllib'",
        ),
    ],
)
def test_fit_refuses_what_does_not_fit_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str
) -> None:
    """To start it takes 10 s and more."""
    for name in ("connect", "train_once"):
        monkeypatch.delattr(f"tos_notebook.surface.{name}")
    with pytest.raises(ConfigError, match=message):
        tos.fit(object(), (), **options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"compression": "nope"}, "compression: No codec is named 'nope'"),
        ({"codec": "nope"}, "codec: No codec is named 'nope'"),
        ({"codec": 3}, "codec: Expected a codec or its name"),
        ({"combiner": 3}, "combiner: Expected a combiner"),
        ({"strategy": 3}, "strategy: expected a name"),
        ({"num_workers": 0}, "num_workers: expected a whole number"),
        (
            {"num_workers": 3, "partitioner": tos.partitioners.RandomPartitioner(2)},
            "num_workers: expected 2, as many as partitioner=RandomPartitioner",
        ),
    ],
)
def test_an_error_begins_with_the_name_that_was_typed(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], message: str
) -> None:
    monkeypatch.delattr("tos_notebook.surface.connect")
    with pytest.raises(TosError, match=f"^{message}"):
        tos.fit(object(), (), verbose=False, **given)
    session: Any = SimpleNamespace(_asked=SessionOptions())
    with pytest.raises(TosError, match=f"^{message}"):
        TrainingSession.start(session, (), **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"compression": "nope"}, "compression: No codec is named 'nope'"),
        ({"learning_rate": "fast"}, "learning_rate: expected a number"),
        ({"epochs": 0}, "epochs: expected a whole number of at least 1"),
        ({"shards": 0}, "shards: expected a whole number of at least 1"),
        ({"combiner": "dynsg"}, "combiner: No combiner is named 'dynsg'"),
    ],
)
def test_a_resumed_run_refuses_what_is_out_of_range_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], message: str
) -> None:
    monkeypatch.delattr("tos_notebook.training.resume.given_spark")
    with pytest.raises(TosError, match=message):
        tos.resume("file:///none", **given)
