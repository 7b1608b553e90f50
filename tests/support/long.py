"""Which tests `make test` leaves to `make test-long`: they repeat what shorter ones protect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

long = pytest.mark.long


def few(values: Iterable[Any], *kept: Any) -> list[Any]:
    """Return all of the values to parametrize by, of which those that are not `kept` are long.

    A tuple has a value for each name.
    """
    found = list(values)
    missing = [one for one in kept if one not in found]
    assert not missing, missing
    return [one if one in kept else _long(one) for one in found]


def _long(one: Any) -> Any:
    values = one if isinstance(one, tuple) else (one,)
    return pytest.param(*values, marks=long)


def examples(share: float) -> settings:
    """Return settings with a share of the examples that a property has otherwise."""
    return settings(max_examples=round(settings().max_examples * share), deadline=None)
