"""A short run of the fuzzing program."""

from __future__ import annotations

from tests.fuzz.checkpoints import fuzz


def test_mutated_files_are_refused_or_read_and_nothing_else() -> None:
    counts = fuzz(2_000, seed=7)
    assert counts["damaged, refused"] > 900
    # Seals put right: some of these differ where it does not matter, such as in a parameter.
    assert counts["resealed, refused"] > 100
    assert counts["resealed, read"] > 25
