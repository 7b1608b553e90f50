"""Strategies are chosen by name, class or object, and a wrong one is answered with the known."""

from __future__ import annotations

from typing import Any

import pytest

import tos_notebook as tos
from tos_notebook.errors import ConfigError
from tos_notebook.strategies import STRATEGIES, ParameterServer, as_strategy, describe


@pytest.mark.parametrize(
    "given", ["ps", "PS", ParameterServer, ParameterServer(), ParameterServer(1 << 10)]
)
def test_a_name_a_class_and_an_object_give_a_strategy(given: Any) -> None:
    found = as_strategy(given)
    assert isinstance(found, ParameterServer)
    assert found is given or found == ParameterServer()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("pss", r"^strategy: expected one of ps, .*; got 'pss'\. Did you mean ps\?$"),
        (
            "sgd",
            r"^strategy: expected one of ps, allreduce, treeaggregate, tensorflow; got 'sgd'\.$",
        ),
        (
            7,
            r"expected a name \(.*ps.*\) or an object such as .*ParameterServer.*got 7 of type int",
        ),
        (int, "got <class 'int'> of type type"),
    ],
)
def test_anything_else_is_refused_with_what_there_is(given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        as_strategy(given)


@pytest.mark.parametrize("value", ["1MB", None, 0, 1.5, True])
def test_a_strategy_checks_its_parameters_where_they_are_given(value: Any) -> None:
    with pytest.raises(ConfigError, match="stripe_bytes: expected a whole number of at least 1"):
        ParameterServer(value)


def test_names_are_completed_before_they_are_used() -> None:
    assert set(dir(tos.strategies)) == {
        "AllReduce",
        "ParameterServer",
        "STRATEGIES",
        "TensorFlowCluster",
        "TreeAggregate",
        "as_strategy",
        "describe",
    }


def test_each_strategy_says_what_it_does_and_when_to_choose_it() -> None:
    rows = describe()
    assert [row["name"] for row in rows] == list(STRATEGIES)
    assert all(row["summary"].endswith(".") and row["when"].endswith(".") for row in rows)
    assert tos.strategies.describe() == rows


def test_each_strategy_says_how_its_options_are_written_as_text() -> None:
    texts = {row["name"]: row["example"].split(", ") for row in describe()}
    assert {"ps:shards=4", "ps:locking=false"} <= {*texts["ps"]}
    for name, several in texts.items():
        assert {as_strategy(text).name for text in several} == {name}


def test_the_options_of_a_strategy_are_listed_with_their_defaults() -> None:
    defaults = {row["name"]: row["defaults"] for row in describe()}
    assert defaults["allreduce"]["algorithm"] == "auto"
    assert defaults["allreduce"]["every"] == 1
    for name, given in defaults.items():
        assert STRATEGIES[name](**given) == as_strategy(name)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("ring", "Did you mean allreduce:ring?"),
        ("alreduce", "Did you mean allreduce?"),
        ("allreduce:rng", "Did you mean ring?"),
        ("ps:shards", "expected 'ps', 'ps:locking=false' or 'ps:shards=N' with N from 1, got"),
        ("ps:shards=0", "got 'ps:shards=0'"),
        ("allreduce:parameters/ten", "BATCHES is a whole number, such as in allreduce:parameters"),
        ("allreduce:ring:parameters/10", "Give an object for more"),
    ],
)
def test_a_name_that_is_not_known_says_which_one_may_be_meant(text: str, hint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        as_strategy(text)
    assert hint in str(raised.value)


def test_spaces_around_a_name_do_not_matter() -> None:
    assert as_strategy(" AllReduce ") == as_strategy("allreduce")


def test_the_number_of_shards_stands_behind_the_name() -> None:
    strategy = as_strategy("ps:shards=4")
    assert strategy == ParameterServer(shards=4)
    assert strategy.tasks == 4
    assert as_strategy("ps").tasks == 0
    assert strategy.exact_settings().shown()["shards"] == 4
    assert "shards" not in as_strategy("ps").exact_settings().shown()
