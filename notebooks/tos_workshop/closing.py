"""The exercises of ``10_race_and_choose.ipynb``: the exit quiz, and which way to choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .exercise import exercise, expect

QUIZ = {
    1: ("c", "02 counts pushes from both sides: each push makes every other worker's push staler."),
    2: ("b", "01a measured how many bytes each way puts on the busiest link."),
    3: ("a", "04 killed a worker, and looked at what the server had committed."),
    4: ("b", "03 has the learning rate's bound for stale updates."),
    5: ("d", "07 trained clients that have one digit each."),
}
"""The right answer to each question, and where the course has it."""

CHOICES = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
"""The row of the decision table for each situation."""


@exercise("closing.quiz")
def quiz(answers: Mapping[int, Any]) -> str:
    """Check the five answers of the exit quiz."""
    expect(
        isinstance(answers, Mapping) and set(answers) == set(QUIZ),
        "Give a letter for each of the questions 1 to 5.",
    )
    missing = [number for number in QUIZ if answers[number] is None]
    expect(not missing, f"No answer yet to {_listed(missing)}.")
    given = {number: str(answer).strip().lower() for number, answer in answers.items()}
    wrong = [number for number, (right, _) in QUIZ.items() if given[number] != right]
    places = " ".join(QUIZ[number][1] for number in wrong)
    expect(
        not wrong,
        f"{len(QUIZ) - len(wrong)} of {len(QUIZ)}. Look again at {_listed(wrong)}. {places}",
    )
    return "Five of five. You know who sends what, who waits, and what that costs."


@exercise("closing.choice")
def choice(rows: Mapping[str, Any]) -> str:
    """Check which row of the decision table fits each situation."""
    expect(
        isinstance(rows, Mapping) and set(rows) == set(CHOICES),
        f"Give a row for each of {', '.join(CHOICES)}.",
    )
    missing = [name for name in CHOICES if rows[name] is None]
    expect(not missing, f"No row yet for {', '.join(missing)}.")
    expect(
        rows["a"] != 2,
        "a: the data fit one machine, and an epoch takes a minute. What do more machines cost?",
    )
    expect(
        not (rows["b"] == 3 and rows["c"] == 2),
        "b and c: one cluster has machines of one kind, the other one has slow ones. Where does "
        "waiting cost more?",
    )
    wrong = [name for name, right in CHOICES.items() if rows[name] != right]
    expect(
        not wrong,
        f"Look again at {', '.join(wrong)}. What does each row of the table ask for?",
    )
    return "You asked first what is scarce: machines, equal speed, movable data, or memory."


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
