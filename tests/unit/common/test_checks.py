"""Settings are checked where they are given."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tos_notebook.common.checks import at_least_one, one_of, positive
from tos_notebook.errors import ConfigError


@pytest.mark.parametrize("value", [1, 7, np.int64(7), np.uint8(1), 10**30])
def test_a_whole_number_is_taken_as_an_int(value: Any) -> None:
    checked = at_least_one("epochs", value)
    assert type(checked) is int
    assert checked == value


@pytest.mark.parametrize(
    "value", [0, -1, np.int32(0), True, False, np.True_, 1.0, 2.5, math.nan, "3", None, [1], 1j]
)
def test_anything_else_is_refused_by_name_value_and_type(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^epochs: expected a whole number") as caught:
        at_least_one("epochs", value)
    assert repr(value) in str(caught.value)
    assert type(value).__name__ in str(caught.value)


@pytest.mark.parametrize("value", [1, 0.1, 5e-324, np.float32(0.5), Fraction(1, 2), 1e308])
def test_a_positive_number_is_taken_as_a_float(value: Any) -> None:
    checked = positive("learning_rate", value)
    assert type(checked) is float
    assert checked == value


@pytest.mark.parametrize(
    "value",
    [
        0,
        -0.1,
        math.inf,
        math.nan,
        np.float32("nan"),
        True,
        "0.1",
        None,
        Decimal("0.1"),
        1j,
        10**400,
        Fraction(10**400),
        Fraction(1, 10**400),
        np.array([0.1]),
    ],
    ids=lambda value: f"{type(value).__name__} {value}"[:20],
)
def test_what_is_not_finite_or_not_positive_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^learning_rate: expected a finite number above 0"):
        positive("learning_rate", value)


def test_a_word_is_one_of_those_allowed() -> None:
    assert one_of("non_finite", "skip", ("raise", "skip")) == "skip"


@pytest.mark.parametrize("value", ["", "Skip", "raise, skip", None, 1, np.array(["skip", "raise"])])
def test_other_words_are_refused_and_the_right_ones_named(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^non_finite: expected one of raise, skip; got "):
        one_of("non_finite", value, ("raise", "skip"))


def test_a_bad_setting_is_a_value_error_too() -> None:
    with pytest.raises(ValueError, match="epochs"):
        at_least_one("epochs", 0)
