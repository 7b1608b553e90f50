"""Samples: each row with the same probability, pure functions, and those of Spark's JVM."""

from __future__ import annotations

import numpy as np
import pytest

from tos_notebook.blocks.sampling import SAMPLERS, Sampler


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("fraction", [0.03, 0.2, 0.4, 0.5, 0.95])
def test_a_sample_has_its_part_of_the_rows_in_their_order(kind: str, fraction: float) -> None:
    rows, sampler = 20_000, Sampler(fraction, kind, 7)
    counts = np.zeros(rows)
    for epoch in range(10):
        found = sampler.draw(rows, epoch, 0)
        assert (np.diff(found) > 0).all()
        assert 0 <= found[0] <= found[-1] < rows
        counts[found] += 1
        # Six standard deviations.
        off = abs(len(found) - rows * fraction)
        assert off < 6 * np.sqrt(rows * fraction * (1 - fraction))
    # No part of the rows is preferred.
    halves = counts.reshape(2, -1).sum(axis=1)
    assert abs(halves[0] - halves[1]) < 6 * np.sqrt(10 * rows * fraction)


@pytest.mark.parametrize("kind", SAMPLERS)
def test_a_sample_is_a_pure_function_of_seed_epoch_and_partition(kind: str) -> None:
    places = [(42, 0, 0), (42, 1, 0), (42, 0, 1), (44, 0, 0)]
    drawn = [Sampler(0.3, kind, s).draw(500, epoch, part).tobytes() for s, epoch, part in places]
    again = [Sampler(0.3, kind, s).draw(500, epoch, part).tobytes() for s, epoch, part in places]
    assert drawn == again
    assert len(set(drawn)) == len(places)


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("rows", [0, 1, 2, 5])
def test_few_rows_and_none_can_be_drawn(kind: str, rows: int) -> None:
    assert Sampler(1.0, kind).draw(rows, 3, 1).tolist() == list(range(rows))
    for fraction in (1e-6, 0.4, 0.41, 1 - 1e-9):
        assert set(Sampler(fraction, kind).draw(rows, 3, 1)) <= set(range(rows))


@pytest.mark.parametrize(
    ("fraction", "seed", "partition", "expected"),
    [
        # What Spark 4.3's JVM draws: rdd.sample(False, fraction, seed) of 40 rows to a partition.
        (0.1, 43, 0, [8, 17, 23, 33]),
        (0.1, 43, 2, [19, 26]),
        (0.4, 142, 0, [0, 1, 4, 8, 12, 16, 23, 26, 27, 29, 31, 32, 33, 35, 36, 38, 39]),
        (0.4, 142, 2, [2, 5, 8, 11, 14, 16, 25, 29, 32, 34, 35, 36]),
        (
            0.5,
            43,
            0,
            [
                0,
                1,
                3,
                4,
                5,
                8,
                11,
                12,
                13,
                14,
                15,
                16,
                18,
                20,
                21,
                25,
                26,
                27,
                30,
                32,
                33,
                35,
                37,
                38,
            ],
        ),
        (0.5, 43, 2, [0, 1, 2, 4, 5, 6, 8, 12, 14, 16, 19, 20, 21, 23, 29, 34, 35, 39]),
        (0.05, 7, 0, []),
        (0.05, 7, 2, []),
    ],
)
def test_samples_are_those_that_the_jvm_has_drawn(
    fraction: float, seed: int, partition: int, expected: list[int]
) -> None:
    assert Sampler(fraction, "mllib", seed - 1).draw(40, 0, partition).tolist() == expected
