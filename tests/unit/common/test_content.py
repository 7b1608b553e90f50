from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.common.content import DIGEST_SIZE, Content, Hash, content_of

ROWS = np.arange(12.0).reshape(6, 2)
LABELS = np.arange(6)


def test_the_same_rows_have_one_content_however_they_are_stored() -> None:
    content = content_of((ROWS, LABELS))
    assert content.rows == 6
    assert len(content.digest) == 2 * DIGEST_SIZE
    assert content_of((np.asfortranarray(ROWS), LABELS.copy())) == content
    assert content_of((np.repeat(ROWS, 2, axis=0)[::2], LABELS)) == content


@pytest.mark.parametrize(
    "other",
    [
        (ROWS[::-1], LABELS),
        (ROWS, LABELS[::-1]),
        (ROWS + 1e-9, LABELS),
        (ROWS.astype(np.float32), LABELS),
        (ROWS.reshape(6, 1, 2), LABELS),
        (ROWS[:5], LABELS[:5]),
        (ROWS,),
        (LABELS, ROWS),
    ],
    ids=["order", "labels", "values", "dtype", "shape", "count", "columns", "columns' order"],
)
def test_other_rows_have_another_content(other: Any) -> None:
    assert content_of(other).digest != content_of((ROWS, LABELS)).digest


@given(st.lists(st.integers(1, 4), max_size=5))
def test_batches_are_told_by_their_values_and_by_where_they_end(sizes: list[int]) -> None:
    rows = np.arange(sum(sizes))
    batches = [(part,) for part in np.split(rows, np.cumsum(sizes))[:-1]]
    running = Hash()
    for batch in batches:
        running.update(batch)
    assert running.content == Hash(*batches).content == Content(len(rows), running.digest.hex())
    if len(batches) > 1:
        assert Hash((rows,)).digest != running.digest


def test_text_has_a_content_by_its_values_and_by_where_they_end() -> None:
    def digest(*texts: bytes) -> str:
        return content_of((np.array([*texts], object),)).digest

    assert digest(b"a", b"bc") == digest(bytes(bytearray(b"a")), b"bc")
    found = {
        digest(b"a", b"bc"),
        digest(b"ab", b"c"),
        digest(b"bc", b"a"),
        digest(b"abc"),
        digest(),
    }
    assert len(found) == 5


def test_no_rows_have_a_content_too() -> None:
    assert content_of(()).rows == content_of((ROWS[:0],)).rows == 0
    assert str(Content(3, "0123456789abcdef")) == "3 rows with digest 01234567"
