"""What users give to evaluate and predict by mistake is told in words, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tos_notebook as tos
from tos_notebook.errors import ConfigError, DataError, ShapeMismatch
from tos_notebook.training.results.held_model import HeldModel
from tos_notebook.training.run import Run

Given = Callable[[Any, Any], Any]


def run_of(program: Any) -> Any:
    """Return what a run asks for what it evaluates and predicts."""
    store = SimpleNamespace(read=lambda: (program.read(), 0), layout=program.layout)
    model = HeldModel(program, store)  # type: ignore
    return SimpleNamespace(lifecycle=SimpleNamespace(model=model))


@pytest.fixture
def program(classifier: Any) -> Any:
    return tos.capture(classifier)


@pytest.fixture
def run(program: Any) -> Any:
    return run_of(program)


@pytest.mark.parametrize("labels", [np.asarray, list, pd.Series])
def test_labels_are_no_part_of_what_is_predicted(
    run: Any, program: Any, rows: Any, classes: Any, labels: Any
) -> None:
    text = r"features: expected names of columns .* got an array of shape \(50,\)\. Leave labels"
    with pytest.raises(ConfigError, match=text):
        Run.predict(run, rows, labels(classes))
    with pytest.raises(ConfigError, match=text):
        program.predict(pd.DataFrame(rows), labels(classes))


def test_a_number_is_no_name_of_a_column(run: Any, rows: Any) -> None:
    with pytest.raises(ConfigError, match=r"features: expected names of columns .* got 32"):
        Run.predict(run, rows, 32)  # type: ignore[arg-type]


def test_no_names_are_none(run: Any, rows: Any) -> None:
    for none in ((), [], "", None):
        assert Run.predict(run, rows, none).shape == (50, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (lambda x, y: (), r"evaluate: expected rows, such as run\.evaluate\(x, y\); got none"),
        (lambda x, y: (x,), "Expected records of 2 fields, .* got 1 fields"),
        (lambda x, y: (x, y, y), r"got 3 fields.*tos\.capture\(model, weights=True\)"),
        (lambda x, y: (x, y[:40]), r"as many rows each, got shapes \(50, 4\), \(40,\)\."),
        (lambda x, y: (x.tolist(), y[:40].tolist()), r"got shapes \(50, 4\), \(40,\)\."),
        (lambda x, y: (pd.DataFrame(x), pd.Series(y[:40])), r"got shapes \(50, 4\), \(40,\)\."),
        (lambda x, y: (x[:, :3], y), r"'x': expected .* shape \(4,\), got float32 of shape \(3,\)"),
        (lambda x, y: (x, y.astype(str)), "Feed 'y': .* got string"),
        (lambda x, y: (x, y, 32), r"shapes \(50, 4\), \(50,\), \(\)\. .* is batch_size=\.\.\."),
        (lambda x, y: (x[:0], y[:0]), "evaluate: expected at least one row, got none"),
        (lambda x, y: (pd.DataFrame(x), "y"), r"names of columns as features=\.\.\."),
        (lambda x, y: (pd.DataFrame(x), ["a", "b"], "y"), r"names of columns as features=\.\.\."),
        (lambda x, y: ("test",), "evaluate: expected rows as a DataFrame .* got str"),
    ],
)
def test_what_cannot_be_evaluated_is_told(
    run: Any, rows: Any, classes: Any, given: Given, text: str
) -> None:
    with pytest.raises((ShapeMismatch, DataError, ConfigError), match=text):
        Run.evaluate(run, *given(rows, classes))


def test_a_program_takes_its_arrays_as_one_tuple(program: Any, rows: Any, classes: Any) -> None:
    with pytest.raises(ConfigError, match=r"as one tuple, such as program\.evaluate\(\(x, y\)\)"):
        program.evaluate(rows, classes)
    with pytest.raises(ShapeMismatch, match=r"got shapes \(50, 4\), \(7,\)"):
        program.evaluate((rows, classes[:7]))


def test_weights_count_on_arrays_where_the_program_takes_them(
    classifier: Any, rows: Any, classes: Any
) -> None:
    weights = np.linspace(0, 2, len(rows))
    run = run_of(tos.capture(classifier, weights=True))
    expected = classifier.evaluate(
        rows, classes, sample_weight=weights, verbose=0, return_dict=True, batch_size=len(rows)
    )
    assert Run.evaluate(run, rows, classes, weights) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ShapeMismatch, match=r"got 2 fields. The last one is how much each row"):
        Run.evaluate(run, rows, classes)


def test_a_word_of_keras_says_where_weights_belong(run: Any, rows: Any, classes: Any) -> None:
    with pytest.raises(ConfigError, match=r"'sample_weight'. It belongs to the rows: evaluate\(x"):
        Run.evaluate(run, rows, classes, sample_weight=classes)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="predict: unknown option 'verbose'"):
        Run.predict(run, rows, verbose=0)  # type: ignore[call-arg]


@pytest.mark.parametrize(("data", "kind"), [(None, "NoneType"), (5, "int"), ("df", "str")])
def test_what_holds_no_rows_asks_for_no_spark(run: Any, data: Any, kind: str) -> None:
    with pytest.raises(DataError, match=f"predict: expected rows .* got {kind}"):
        Run.predict(run, data)
