"""Parts of a checkpoint: what is written is read, and what is another one is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.errors import CheckpointError
from tos_notebook.persist import sealed
from tos_notebook.persist.parts import SavedPart, joined, parts_of, read_part, write_part
from tos_notebook.persist.sealed import Sealed, Streamed


class Memory:
    """A folder in memory."""

    uri = "memory:"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def write_pieces(self, name: str, pieces: Iterable[bytes | memoryview]) -> str:
        self.files[name] = b"".join(pieces)
        return name

    def read(self, name: str) -> bytes:
        if name not in self.files:
            raise CheckpointError(f"there is no {name}")
        return self.files[name]


@given(
    st.lists(st.lists(st.integers(-9, 9), max_size=5), max_size=4),
    st.integers(1, 3),
)
def test_what_is_streamed_is_what_is_whole(rows: list[list[int]], length: int) -> None:
    arrays = [np.array(row, np.int32) for row in rows]

    def streamed(array: Any) -> Streamed:
        pieces = (array[start : start + length] for start in range(0, len(array), length))
        return Streamed(array.dtype, array.shape, pieces)

    whole, piecewise = Memory(), Memory()
    part = write_part(whole, "part", {"key": [1, None]}, arrays)
    assert write_part(piecewise, "part", {"key": [1, None]}, [*map(streamed, arrays)]) == part
    assert whole.files == piecewise.files
    assert whole.files["part"] == sealed.encode({"part": "part"}, {"key": [1, None]}, arrays)
    found = read_part(whole, part)
    assert found.value == {"key": [1, None]}
    assert [a.tolist() for a in found.arrays] == rows


def test_an_array_of_another_length_than_it_says_is_refused() -> None:
    short = Streamed(np.dtype(np.int32), (3,), [np.zeros(2, np.int32)])
    with pytest.raises(CheckpointError, match="an array of 12 bytes to write, got 8"):
        write_part(Memory(), "part", None, [short])


def test_another_part_under_the_same_name_is_refused() -> None:
    """Such as the one of an attempt before, which is as long."""
    folder = Memory()
    part = write_part(folder, "part", 1, [np.zeros(8)])
    write_part(folder, "part", 1, [np.ones(8)])
    with pytest.raises(CheckpointError, match="memory:/part is not the part that its checkpoint"):
        read_part(folder, part)
    with pytest.raises(CheckpointError, match="there is no other"):
        read_part(folder, part._replace(name="other"))


def test_what_a_check_raises_ends_the_writing() -> None:
    left = iter(range(3))

    def check() -> None:
        if next(left) == 2:
            raise CheckpointError("not wanted")

    with pytest.raises(CheckpointError, match="not wanted"):
        write_part(Memory(), "part", None, [np.zeros(8)], check)


@pytest.mark.parametrize(
    "named", [7, [7], [["a"]], [["a", "b", "c"]], [["a", 1, 2]], [["a", True, "c"]]]
)
def test_a_checkpoint_that_names_no_parts_is_refused(named: Any) -> None:
    with pytest.raises(CheckpointError, match="Expected the name, length and seal of each part"):
        parts_of({"parts": named})


def test_parts_take_the_place_of_their_names() -> None:
    folder = Memory()

    def parts() -> Iterator[SavedPart]:
        for number in range(2):
            yield write_part(folder, f"{number}", {"number": number}, [np.arange(number + 1)])

    value = {"parts": [list(part) for part in parts()], "other": 1}
    named = parts_of(value)
    whole = joined(Sealed({}, value, [np.zeros(1)]), [read_part(folder, part) for part in named])
    assert whole.value == {"parts": [[{"number": 0}, 1], [{"number": 1}, 1]], "other": 1}
    assert [len(array) for array in whole.arrays] == [1, 1, 2]
    assert parts_of({"other": 1}) == parts_of([1]) == ()
