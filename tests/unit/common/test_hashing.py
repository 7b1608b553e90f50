from __future__ import annotations

import numpy as np

from tos_notebook.common.hashing import mix64, mix_key, nth_hash


def test_mix64_is_splitmix64() -> None:
    """The first outputs of the reference generator with state 1234567."""
    gamma = 0x9E3779B97F4A7C15
    states = [(1234567 + i * gamma) % 2**64 for i in range(3)]
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [mix64(state) for state in states] == expected
    assert mix64(np.array(states, np.uint64)).tolist() == expected
    assert [nth_hash(1234567, i) for i in range(3)] == expected


def test_the_order_of_words_counts_in_a_key() -> None:
    assert mix_key(1, 2) != mix_key(2, 1)
