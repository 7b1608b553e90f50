from __future__ import annotations

from tos_notebook.runtime.loaded import BOUND, Loaded


def test_what_was_used_last_is_kept() -> None:
    loaded: Loaded[int] = Loaded()
    for number in range(BOUND):
        loaded.keep(str(number), number)
    assert loaded.keep("0", 0) == 0
    loaded.keep("new", 9)
    assert [loaded.get(name) for name in ("0", "1", "new")] == [0, None, 9]
