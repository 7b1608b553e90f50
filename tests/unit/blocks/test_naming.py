"""Names of columns and keys of dictionaries against the names of what is fed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tos_notebook.archive.spec import FeedSpec
from tos_notebook.blocks.naming import in_order
from tos_notebook.data.parts import named_arrays
from tos_notebook.errors import ShapeMismatch

B, A, OUT = (FeedSpec(name, None, None) for name in ("b", "a", "out"))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "b"], ("b", "a")),
        (["b", "a"], ("b", "a")),
        (["A", "B"], ("B", "A")),
        (["left", "right"], ("left", "right")),
        (["b", "right"], ("b", "right")),
        ({"a": "one", "b": "two"}, ("two", "one")),
        ({"a": "b", "b": "a"}, ("a", "b")),
        # Too few or too many are refused where they are counted.
        (["a"], ("a",)),
    ],
)
def test_columns_go_by_name_if_they_have_the_names_and_by_position_otherwise(
    names: Any, expected: tuple[str, ...]
) -> None:
    assert in_order(names, [B, A], "features") == expected


def test_a_column_at_the_place_of_another_one_is_refused_with_the_mapping() -> None:
    with pytest.raises(ShapeMismatch, match=r"go a -> b, c -> a, but") as caught:
        in_order(["a", "c"], [B, A], "features")
    assert "features={'b': 'a', 'a': 'c'}" in str(caught.value)


@pytest.mark.parametrize(
    "names", [{"a": "x"}, {"a": "x", "c": "y"}, {"a": "x", "b": "y", "c": "z"}]
)
def test_a_mapping_must_name_each_input(names: dict[str, str]) -> None:
    with pytest.raises(ShapeMismatch, match="features: expected the names 'b', 'a', got 'a'"):
        in_order(names, [B, A], "features")


def test_dictionaries_of_arrays_go_by_name() -> None:
    a, b, y = np.zeros(2), np.ones(2), np.full(2, 7.0)
    for data in (({"a": a, "b": b}, y), ({"a": a, "b": b}, {"out": y})):
        found = named_arrays(data, [B, A, OUT])
        assert all(one is other for one, other in zip(found, (b, a, y), strict=True))


def test_a_dictionary_of_arrays_with_other_names_is_refused() -> None:
    with pytest.raises(ShapeMismatch, match="Field 0 of a record: expected the names 'b', 'a'"):
        named_arrays(({"left": 1, "right": 2}, 3), [B, A, OUT])


def test_arrays_without_names_stay_as_they_are() -> None:
    data = (np.zeros(2), np.ones(2))
    assert named_arrays(data, [B, A]) is data


@pytest.mark.parametrize("given", [{"a": 1}, {"a": 1, "b": 2, "out": 3}])
def test_a_dictionary_of_too_few_or_too_many_inputs_is_told_all_of_their_names(
    given: dict[str, int],
) -> None:
    ports = [replace(port, part="inputs") for port in (B, A)]
    label = replace(OUT, part="labels")
    with pytest.raises(ShapeMismatch, match="expected the names 'b', 'a', got 'a'"):
        named_arrays((given, 3), [*ports, label])
    with pytest.raises(ShapeMismatch, match="expected the names 'out', got 'y'"):
        named_arrays((1, 2, {"y": 3}), [*ports, label])
