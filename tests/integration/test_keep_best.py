"""`keep_best`: the parameters of the best validation, in memory and beside the checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import captured_classifier, classifier
from tests.support.watching import Watch
from tos_notebook.errors import ConfigError
from tos_notebook.events import Validated

Digits = tuple[np.ndarray, ...]

FIRST = "val_loss:max"
"""Most often that of the first evaluation: the model learns."""


def fit(digits: Digits, model: Any = None, epochs: int = 3, **options: Any) -> Any:
    x, y, x_test, y_test = digits
    known = {"validation_data": (x_test, y_test), "batch_size": 32, "verbose": False}
    return tos.fit(model or captured_classifier(), (x[:400], y[:400]), epochs, **known | options)


def fit_until_evaluated(digits: Digits, times: int, model: Any, **options: Any) -> Any:
    watch = Watch()
    run = fit(digits, model, 10_000, wait=False, sinks=[watch], **options)
    watch.wait_for(Validated, times)
    run.stop()
    return run


def loss(model: Any, digits: Digits) -> float:
    return float(model.evaluate(*digits[2:], verbose=0)[0])


def flat(model: Any) -> np.ndarray:
    return np.concatenate([weight.ravel() for weight in model.get_weights()])


def test_the_parameters_that_were_evaluated_are_kept_and_go_back_into_the_model(
    spark_context: Any, digits: Digits
) -> None:
    model = classifier()
    run = fit_until_evaluated(digits, 3, model, keep_best=FIRST)
    found, best = run.validation.loc[run.validation["loss"].idxmax()], run.best
    assert (best.metric, best.value, best.uri) == ("val_loss", found["loss"], None)
    assert (best.epoch, best.samples) == (found["epoch"], found["samples"])
    kept = np.concatenate([array.ravel() for array in best.parameters().values()])
    assert not np.array_equal(flat(model), kept)
    best.restore()
    assert loss(model, digits) == pytest.approx(best.value, rel=1e-4)
    np.testing.assert_array_equal(flat(model), kept)


def test_the_largest_accuracy_and_the_least_loss_are_the_best(
    spark_context: Any, digits: Digits
) -> None:
    run = fit(digits, keep_best="val_accuracy", validation_every=2)
    assert run.best.value == run.validation["accuracy"].max()
    run = fit(digits, keep_best="val_loss", validation_data=None, validation_split=0.2)
    assert run.best.value == run.validation["loss"].min()


def test_what_callbacks_see_evaluated_is_kept(spark_context: Any, digits: Digits) -> None:
    import keras

    model = classifier()
    run = fit(digits, model, keep_best=FIRST, callbacks=[keras.callbacks.Callback()])
    assert run.best.value == run.validation["loss"].max()
    run.best.restore()
    assert loss(model, digits) == pytest.approx(run.best.value, rel=1e-4)


def test_it_is_beside_the_checkpoints_and_lasts_when_the_run_is_resumed(
    spark_context: Any, digits: Digits, tmp_path: Path
) -> None:
    folder = {"checkpoint_dir": tmp_path.as_uri(), "checkpoint_every": "1h"}
    run = fit_until_evaluated(digits, 1, captured_classifier(), keep_best=FIRST, **folder)
    assert run.best.uri == f"{run.uri}/best.tos"
    (saved,) = tos.runs(tmp_path.as_uri())
    assert saved.best == run.best
    for name, array in run.best.parameters().items():
        np.testing.assert_array_equal(saved.best.parameters()[name], array)
    with pytest.raises(ConfigError, match=r"Take parameters\(\)"):
        saved.best.restore()
    model, watch = classifier(), Watch()
    options = {"program": model, "validation_data": digits[2:], "keep_best": FIRST}
    more = tos.resume(run.uri, sinks=[watch], **options)
    watch.wait_for(Validated, 1)
    more.stop()
    assert more.best == run.best
    more.best.restore()
    assert loss(model, digits) == pytest.approx(run.best.value, rel=1e-4)


def test_without_it_nothing_is_kept(spark_context: Any, digits: Digits) -> None:
    assert fit(digits, epochs=1).best is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"keep_best": "val_acc"},
            "keep_best: expected one of val_loss, val_accuracy; got 'val_acc'. Did you mean "
            "val_accuracy?",
        ),
        (
            {"stop_when": "val_acuracy > 0.9"},
            "stop_when: expected one of val_loss, val_accuracy; got 'val_acuracy'. Did you mean "
            "val_accuracy?",
        ),
        (
            {"stop_when": ["minutes > 9", tos.conditions.metric("acc", above=0.9)]},
            "stop_when: expected one of loss, accuracy, samples, steps, seconds, minutes, hours; "
            "got 'acc'. Did you mean accuracy?",
        ),
    ],
)
def test_a_metric_that_the_program_cannot_have_is_refused_before_the_run(
    spark_context: Any, digits: Digits, options: dict[str, Any], message: str
) -> None:
    before = {run.run_id for run in tos.runs()}
    with pytest.raises(ConfigError) as raised:
        fit(digits, **options)
    assert str(raised.value) == message
    assert {run.run_id for run in tos.runs()} <= before


def test_a_value_that_only_an_evaluation_tells_ends_the_run(
    spark_context: Any, digits: Digits
) -> None:
    import keras

    class Own(keras.Sequential):  # type: ignore[misc]
        def test_step(self, data: Any) -> Any:
            return {"own": keras.ops.mean(self(data[0]))}

    model = Own(classifier().layers)
    model.compile("sgd", "sparse_categorical_crossentropy")
    with pytest.raises(ConfigError, match=r"keep_best: expected one of val_own; got 'val_loss'"):
        fit(digits, model, keep_best="val_loss", epochs=50)
