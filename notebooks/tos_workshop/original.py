"""The exercises of ``01_tensoronspark_mnist.ipynb``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .exercise import exercise, expect

PARAMETERS = 784 * 10 + 10
"""Of softmax regression on images of 28 x 28 pixels and ten digits."""

PLACES = {"a": 3, "b": 5, "c": 1, "d": 7, "e": 4}
"""The step of the paper that each line of the exercise belongs to."""


@exercise("original.traffic")
def traffic(nbytes: Any) -> str:
    """Look at the bytes of parameters that one milestone moves."""
    right = 2 * 4 * PARAMETERS
    expect(
        nbytes is not None,
        "How many numbers are in W and b, and how many bytes has a float32? Which ways do they go?",
    )
    expect(nbytes != PARAMETERS, "That counts numbers. A float32 has 4 bytes.")
    expect(nbytes != right // 2, "The executor pushes that much. What does it pull?")
    expect(nbytes != 2 * 4 * 7840, "That is W alone. The parameter b is sent as well.")
    expect(nbytes == right, "All values of W and b are sent both ways, 4 bytes each.")
    return "A milestone sends 7,850 parameters up and down, however large the batches are."


@exercise("original.steps")
def steps(numbers: Mapping[str, Any]) -> str:
    """Look at the step of the paper for each line."""
    expect(
        isinstance(numbers, dict) and set(numbers) == set(PLACES),
        f"Give a number for each of {', '.join(PLACES)}.",
    )
    missing = [line for line in PLACES if numbers[line] is None]
    expect(not missing, f"No step yet for {', '.join(missing)}.")
    wrong = [line for line, step in PLACES.items() if numbers[line] != step]
    expect(not wrong, f"Look again at {', '.join(wrong)}. The seven steps are at the top.")
    return "You can follow the program of 2016 through today's system."
