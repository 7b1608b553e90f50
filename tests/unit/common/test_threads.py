"""Calls on threads of their own, also where a process that ends starts none."""

from __future__ import annotations

import threading

import pytest

from tos_notebook.common.threads import in_thread


def refusing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let no thread start, for this reason."""

    def start(self: threading.Thread) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr(threading.Thread, "start", start)


def test_what_a_process_calls_at_its_end_is_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # As Python 3.12 says it.
    refusing(monkeypatch, "can't create new thread at interpreter shutdown")
    assert in_thread("tos-test", threading.get_ident).result(0) == threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        in_thread("tos-test", lambda: 1 / 0).result(0)


def test_a_thread_that_cannot_start_for_another_reason_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusing(monkeypatch, "can't start new thread")
    with pytest.raises(RuntimeError, match="can't start"):
        in_thread("tos-test", threading.get_ident)
