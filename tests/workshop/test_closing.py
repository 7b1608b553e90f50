"""The exercises of the last two notebooks: right answers are praised, wrong ones are seen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workshop.looks import hinted, praised

ANSWERS = {1: "c", 2: "b", 3: "a", 4: "b", 5: "d"}
ROWS = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
JOBS = {"variables": "ps", "gradients": "worker", "step": "ps"}
KINDS = {"a": "in-graph", "b": "between-graph", "c": "between-graph", "d": "in-graph"}


def test_right_answers() -> None:
    praised("closing.quiz", ANSWERS)
    praised("closing.quiz", {number: letter.upper() for number, letter in ANSWERS.items()})
    praised("closing.choice", ROWS)
    praised("tensorflow_cluster.places", JOBS)
    praised("tensorflow_cluster.replication", KINDS)


@pytest.mark.parametrize(
    ("task", "wrong", "words"),
    [
        ("closing.quiz", None, "a letter for each"),
        ("closing.quiz", {1: "a"}, "a letter for each"),
        ("closing.quiz", ANSWERS | {2: None, 5: None}, "No answer yet to 2, 5."),
        ("closing.quiz", ANSWERS | {1: "a", 4: "c"}, "3 of 5. Look again at 1, 4. 02 counts"),
        ("closing.choice", {"a": 1}, "a row for each"),
        ("closing.choice", ROWS | {"e": None}, "No row yet for e"),
        ("closing.choice", ROWS | {"a": 2}, "What do more machines cost"),
        ("closing.choice", ROWS | {"b": 3, "c": 2}, "Where does waiting cost more"),
        ("closing.choice", ROWS | {"d": 5, "e": 4}, "Look again at d, e."),
        ("tensorflow_cluster.places", {}, "a job for each"),
        ("tensorflow_cluster.places", JOBS | {"step": None}, "No job yet for step"),
        ("tensorflow_cluster.places", JOBS | {"gradients": "ps"}, "would have no work"),
        ("tensorflow_cluster.places", JOBS | {"step": "worker"}, "Which job does it name"),
        ("tensorflow_cluster.places", JOBS | {"variables": "worker"}, "Look again at variables"),
        ("tensorflow_cluster.replication", None, "a kind for each"),
        ("tensorflow_cluster.replication", KINDS | {"b": None}, "No kind yet for b"),
        ("tensorflow_cluster.replication", KINDS | {"b": "both"}, "b: write"),
        ("tensorflow_cluster.replication", KINDS | {"c": "in-graph"}, "Look again at c."),
    ],
)
def test_wrong_answers_get_their_hint(task: str, wrong: Any, words: str) -> None:
    hinted(words, task, wrong)
