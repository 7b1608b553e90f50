from __future__ import annotations

from tos_notebook.common.repeats import MOST, Repeats


def test_a_text_is_said_at_once_and_then_at_intervals_that_double() -> None:
    repeats = Repeats(15.0)
    said = [now for now in range(300) if repeats.due("no executor", float(now))]
    assert said == [0, 15, 45, 105, 225]


def test_another_text_is_said_at_once() -> None:
    repeats = Repeats(15.0)
    assert [repeats.due(text, 1.0) for text in ("one", "two", "one", "two")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_no_more_than_so_many_texts_are_remembered() -> None:
    repeats = Repeats(15.0)
    assert all(repeats.due(str(number), 0.0) for number in range(3 * MOST))
    assert len(repeats._said) <= MOST
