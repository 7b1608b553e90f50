"""The exercises on clusters: right ones are praised, typical wrong ones get the hint that fits."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workshop.looks import said


def test_the_memory_rule() -> None:
    right = said("clusters.memory", lambda data_gb, executors: 1 + 2 * data_gb / executors)
    assert right.startswith("Right. Twice, because")


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (lambda data_gb, executors: None, "returned None"),
        (lambda data_gb, executors: 2 * data_gb / executors, "TensorFlow itself"),
        (lambda data_gb, executors: 1 + 2 * data_gb, "they share the data"),
        (lambda data_gb, executors: 1 + data_gb / executors, "how often does the table count it"),
        (lambda data_gb: 1 + 2 * data_gb, "TypeError"),
    ],
)
def test_other_memory_rules(wrong: Any, hint: str) -> None:
    assert hint in said("clusters.memory", wrong)


SETTINGS = {
    "spark.cores.max": 6,
    "spark.executor.cores": "2",
    "spark.tos.server.host": "gateway.example.org",
    "spark.tos.server.port": "7080",
}


def test_settings_behind_a_gateway() -> None:
    assert said("clusters.settings", SETTINGS).startswith("Right. Spark knows")


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"spark.executor.instances": "3"}, "is for YARN and Kubernetes"),
        ({"spark.executor.cores": "3"}, "An executor of two cores"),
        ({"spark.cores.max": None}, "takes all cores"),
        ({"spark.cores.max": "3"}, "three executors of two cores"),
        ({"spark.tos.server.host": None, "spark.driver.host": "gateway"}, "Spark's own"),
        ({"spark.tos.server.host": None}, "the container's own address"),
        ({"spark.tos.server.host": "localhost"}, "who is that"),
        ({"spark.tos.server.port": None}, "any free port"),
        ({"spark.tos.server.port": "7077"}, "which is not open"),
    ],
)
def test_other_settings(changes: dict[str, Any], hint: str) -> None:
    changed = {name: value for name, value in {**SETTINGS, **changes}.items() if value is not None}
    assert hint in said("clusters.settings", changed)


def test_what_a_resumed_run_trains() -> None:
    assert said("clusters.resume", 5185, 7185).startswith("Right. 600 samples")


@pytest.mark.parametrize(
    ("trained", "shown", "hint"),
    [
        (7185, 7785, "and lost"),
        (5185, 5185, "each row once"),
        (7185, 7185, "begin at the beginning"),
        (4585, 7185, "cannot continue at 2,600"),
        (600, 7185, "How many are already"),
    ],
)
def test_other_counts(trained: int, shown: int, hint: str) -> None:
    assert hint in said("clusters.resume", trained, shown)


def test_a_remedy_for_each_message() -> None:
    assert said("clusters.remedy", {"a": 4, "b": 2, "c": 1, "d": 3}).startswith("Right.")


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"a": None, "b": 2, "c": 1, "d": None}, "No remedy yet for a, d."),
        ({"a": 3, "b": 2, "c": 1, "d": 4}, "no server answered"),
        ({"a": 4, "b": 1, "c": 2, "d": 3}, "installed on a node"),
        ({"a": 1, "b": 2, "c": 4, "d": 3}, "Look again at a, c"),
    ],
)
def test_other_remedies(wrong: Any, hint: str) -> None:
    assert hint in said("clusters.remedy", wrong)
