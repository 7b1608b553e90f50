"""A program's arguments, however they come, and with a pipeline's parameters among them."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from tos_notebook.errors import ConfigError
from tos_notebook.tensorflowonspark.namespace import Namespace
from tos_notebook.tensorflowonspark.params import (
    HasBatchSize,
    HasInputMapping,
    HasInputMode,
    TFParams,
)


@pytest.mark.parametrize("kind", [dict, argparse.Namespace, Namespace])
def test_arguments_are_attributes_whatever_they_come_in(kind: Any) -> None:
    given = {"rate": 0.5, "sizes": [1, 2]}
    args = Namespace(kind(given) if kind is Namespace else kind(**given))
    assert (args.rate, args.sizes) == (0.5, [1, 2])
    assert "rate" in args
    assert "other" not in args
    assert args == Namespace(given)
    assert set(args) == {"rate", "sizes"}


def test_words_of_a_command_line_stay_words() -> None:
    args = Namespace(["--rate", "1"])
    assert args.argv == list(args) == ["--rate", "1"]


def test_anything_else_is_refused() -> None:
    with pytest.raises(ConfigError, match="got int"):
        Namespace(3)


class Stage(TFParams, HasBatchSize, HasInputMapping, HasInputMode):
    def __init__(self, args: Any) -> None:
        super().__init__()
        self.args = Namespace(args)


@pytest.mark.usefixtures("spark")
def test_parameters_join_the_arguments_and_go_before_those_of_the_same_name() -> None:
    stage = Stage({"rate": 1, "batch_size": 3})
    stage.setBatchSize(10).setInputMapping({"image": "x"}).setInputMode(1)
    merged = stage.merge_args_params()
    mapping = {"image": "x"}
    assert vars(merged) == {"rate": 1, "batch_size": 10, "input_mapping": mapping, "input_mode": 1}
    assert stage.args.batch_size == 3


@pytest.mark.usefixtures("spark")
def test_a_parameter_that_does_not_fit_is_refused_when_it_is_set() -> None:
    with pytest.raises(TypeError, match="expected names by names"):
        Stage({}).setInputMapping(["image"])
    with pytest.raises(ConfigError, match=r"InputMode\.SPARK"):
        Stage({}).setInputMode(0)
