"""`keep_best`: the parameters of the best validation, in memory and beside the checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import classifier
from tos_notebook.errors import ConfigError

Digits = tuple[np.ndarray, ...]


def fit(digits: Digits, model: Any = None, epochs: int = 3, **options: Any) -> Any:
    """Train on some rows; by a rate that makes it worse after the first epoch, in the end."""
    x, y, x_test, y_test = digits
    known = {"validation_data": (x_test, y_test), "batch_size": 32, "verbose": False, "seed": 1}
    return tos.fit(model or classifier(), (x[:400], y[:400]), epochs, **known | options)


def worse_and_worse() -> tuple[Any, Any]:
    """Return a model, and a schedule that spoils it after its first steps."""
    return classifier(), lambda step: 0.3 if step < 12 else 30.0


def test_the_best_of_all_evaluations_is_kept_and_goes_back_into_the_model(
    spark_context: Any, digits: Digits
) -> None:
    model, rate = worse_and_worse()
    run = fit(digits, model, learning_rate=rate, keep_best="val_loss")
    found = run.validation.sort_values("loss").iloc[0]
    best = run.best
    assert (best.metric, best.value, best.uri) == ("val_loss", found["loss"], None)
    assert (best.epoch, best.samples) == (found["epoch"], found["samples"])
    assert best.value < run.validation["loss"].iloc[-1]
    best.restore()
    loss, _ = model.evaluate(*digits[2:], verbose=0)
    assert loss == pytest.approx(best.value, rel=1e-4)
    flat = np.concatenate([weight.ravel() for weight in model.get_weights()])
    kept = np.concatenate([array.ravel() for array in best.parameters().values()])
    np.testing.assert_array_equal(flat, kept)


def test_the_largest_accuracy_is_the_best(spark_context: Any, digits: Digits) -> None:
    run = fit(digits, keep_best="val_accuracy", validation_every=2)
    assert run.best.value == run.validation["accuracy"].max()


def test_what_callbacks_see_evaluated_is_kept(spark_context: Any, digits: Digits) -> None:
    import keras

    model = classifier()
    run = fit(digits, model, keep_best="val_loss", callbacks=[keras.callbacks.Callback()])
    assert run.best.value == run.validation["loss"].min()
    run.best.restore()
    assert model.evaluate(*digits[2:], verbose=0)[0] == pytest.approx(run.best.value, rel=1e-4)


def test_it_is_beside_the_checkpoints_and_lasts_when_the_run_is_resumed(
    spark_context: Any, digits: Digits, tmp_path: Path
) -> None:
    model, rate = worse_and_worse()
    folder = {"checkpoint_dir": tmp_path.as_uri(), "checkpoint_every": "1h"}
    run = fit(digits, model, learning_rate=rate, keep_best="val_loss", **folder)
    assert run.best.uri == f"{run.uri}/best.tos"
    (saved,) = tos.runs(tmp_path.as_uri())
    assert saved.best == run.best
    for name, array in run.best.parameters().items():
        np.testing.assert_array_equal(saved.best.parameters()[name], array)
    with pytest.raises(ConfigError, match=r"Take parameters\(\)"):
        saved.best.restore()
    again = classifier()
    options = {"program": again, "validation_data": digits[2:], "keep_best": "val_loss"}
    more = tos.resume(run.uri, epochs=4, **options).wait()
    # The rate stays what it was: nothing better came.
    assert more.best.value == run.best.value
    more.best.restore()
    assert again.evaluate(*digits[2:], verbose=0)[0] == pytest.approx(run.best.value, rel=1e-4)


def test_without_it_nothing_is_kept(spark_context: Any, digits: Digits) -> None:
    assert fit(digits, epochs=1).best is None


def test_a_value_that_does_not_exist_ends_the_run_and_names_those_that_do(
    spark_context: Any, digits: Digits
) -> None:
    with pytest.raises(
        ConfigError, match=r"keep_best: expected one of val_\w+, val_\w+; got 'val_auc'"
    ):
        fit(digits, keep_best="val_auc", epochs=50)
