"""Conditions are met when they say so, and what can never be met is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tos_notebook.errors import ConfigError
from tos_notebook.steering import conditions
from tos_notebook.steering.status import RunStatus


def status(**changes: Any) -> RunStatus:
    known: dict[str, Any] = {
        "run": "run-1", "state": "running", "epoch": 1, "epochs": 9, "milestones": 10,
        "samples": 12_000, "samples_per_second": 1.0, "loss": 0.5, "staleness": 0.0,
        "elapsed": 90.0, "steps": 120, "metrics": {"accuracy": 0.75},
        "validation": {"loss": 0.25, "accuracy": 0.875}, "validations": 1,
    }  # fmt: skip
    return RunStatus(**known | changes)


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (conditions.loss_below(0.6), "training loss 0.5 < 0.6"),
        (conditions.metric("accuracy", above=0.7), "training accuracy 0.75 > 0.7"),
        (conditions.validation("accuracy", above=0.8), "validation accuracy 0.875 > 0.8"),
        (conditions.validation("val_loss", below=0.3), "validation loss 0.25 < 0.3"),
        (conditions.samples(12_000), "samples 12,000 >= 12,000"),
        (conditions.after(minutes=1.5), "minutes 1.5 >= 1.5"),
        (conditions.after(minutes=1, seconds=10), "seconds 90 >= 70"),
        *((c, None) for c in conditions.parse("loss<0.5 or val_accuracy > 0.9 or steps >= 121")),
        (conditions.parse("steps >= 1_2e1")[0], "steps 120 >= 120"),
    ],
)
def test_a_bound_gives_its_reason_once_a_value_is_beyond(
    condition: conditions.Condition, reason: str | None
) -> None:
    assert condition(status()) == reason


def test_nothing_is_met_before_there_is_a_value() -> None:
    nothing = status(milestones=0, loss=float("nan"), metrics={}, validation={}, validations=0)
    words = "loss < 1 or accuracy > 0 or val_accuracy > 0 or nonsense > 1 or val_nonsense > 1"
    assert [condition(nothing) for condition in conditions.parse(words)] == [None] * 5
    assert conditions.loss_below(1)(status(loss=float("nan"))) is None


def test_an_unknown_metric_names_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match="no 'val_acc'; there are val_loss, val_accuracy"):
        conditions.validation("acc", above=0.5)(status())
    with pytest.raises(ConfigError, match="no 'acc'; there are loss, accuracy, samples"):
        conditions.metric("acc", above=0.5)(status())


def told(condition: conditions.Condition, *values: float, run: str = "run-1") -> list[str | None]:
    return [
        condition(status(run=run, validation={"loss": value}, validations=number))
        for number, value in enumerate(values, 1)
    ]


def test_evaluations_that_do_not_improve_are_counted_in_a_row() -> None:
    condition = conditions.no_improvement(patience=2)
    reason = "validation loss no better than 0.5 in 2 evaluations"
    assert told(condition, 1.0, 1.0, 0.5, 0.6, 0.5) == [None] * 4 + [reason]
    # Another run begins from the start.
    assert told(condition, 2.0, 1.0, 0.9, run="run-2") == [None] * 3


def test_one_evaluation_counts_once_however_often_it_is_seen() -> None:
    condition = conditions.no_improvement(patience=1)
    assert [condition(status(validations=1)) for _ in range(3)] == [None] * 3
    assert condition(status(validations=2)) is not None


def test_what_is_better_follows_the_name_the_mode_and_the_least_gain() -> None:
    def ends(name: str, *values: float, **options: Any) -> bool:
        condition = conditions.no_improvement(name, patience=1, **options)
        found = [
            condition(status(validation={name: value}, validations=number))
            for number, value in enumerate(values, 1)
        ]
        return found[-1] is not None

    assert not ends("accuracy", 0.5, 0.6)
    assert ends("accuracy", 0.6, 0.5)
    assert ends("f1", 0.5, 0.6, mode="min")
    assert ends("loss", 0.5, 0.45, min_delta=0.1)
    with pytest.raises(ConfigError, match='mode="min" or mode="max" for \'f1\''):
        conditions.no_improvement("f1")


@pytest.mark.parametrize(
    ("text", "got"),
    [("", "''"), ("loss", "'loss'"), ("loss < x", "'loss < x'"), ("a > 1 or", "''"),
     ("loss < nan", "'loss < nan'"), ("loss == 1", "'loss == 1'"), ("1 < loss", "'1 < loss'")],
)  # fmt: skip
def test_words_that_stand_for_nothing_are_refused(text: str, got: str) -> None:
    with pytest.raises(ConfigError, match=f"expected a name, one of .* got {got}"):
        conditions.as_conditions(text)


@pytest.mark.parametrize(
    "make",
    [
        lambda: conditions.metric("accuracy"),
        lambda: conditions.validation("accuracy", above=0.5, below=0.6),
        lambda: conditions.loss_below("low"),  # type: ignore[arg-type]
        lambda: conditions.after(),
        lambda: conditions.after(minutes=-1),
        lambda: conditions.samples(0),
        lambda: conditions.no_improvement(patience=0),
        lambda: conditions.no_improvement(min_delta=-1),
        lambda: conditions.as_conditions(0.1),
        lambda: conditions.as_conditions([conditions.Bound]),
    ],
)
def test_a_parameter_out_of_range_is_refused(make: Any) -> None:
    with pytest.raises(ConfigError, match="expected"):
        make()


def test_several_are_flat_and_named() -> None:
    def enough(status: RunStatus) -> bool:
        return True

    found = conditions.as_conditions(
        [enough, "loss < 1 or steps >= 3", [conditions.samples(20_000)]]
    )
    assert [conditions.text_of(c) for c in found] == [
        "enough", "loss < 1", "steps >= 3", "samples >= 20,000",
    ]  # fmt: skip


def test_every_kind_is_described_with_an_example_and_the_same_in_words() -> None:
    rows = conditions.describe()
    assert [row["name"] for row in rows] == [
        *("loss_below", "metric", "validation", "no_improvement", "samples", "after")
    ]
    for row in rows:
        made = eval(row["example"], vars(conditions))
        assert isinstance(made, conditions.Condition)
        assert row["words"] is None or conditions.parse(row["words"]) == (made,)
    told = " ".join(row["when"] for row in rows)
    assert all(name.removesuffix("s") in told for name in conditions.COUNTS if name != "samples")
    assert "<table>" in str(rows._repr_html_())


def test_completion_offers_conditions_only() -> None:
    assert {"after", "metric", "no_improvement", "validation"} <= {*dir(conditions)}
    assert not {"ABC", "abstractmethod", "dataclass", "VALIDATION"} & {*dir(conditions)}
