"""Letters between two clients of a Spark Connect session: the latest one, of a bounded size."""

from __future__ import annotations

import pytest

from tests.support.mail import Views
from tos_notebook.cluster.remote.mailbox import LARGEST, Mailbox
from tos_notebook.errors import RemoteProtocolError


def test_the_latest_letter_of_a_name_arrives_and_others_are_not_there() -> None:
    views = Views()
    sender, receiver = Mailbox(views, "tos_1"), Mailbox(views, "tos_1")
    sender.put("up", b"first")
    sender.put("up", b"\x00second")
    assert receiver.get("up") == b"\x00second"
    assert receiver.get("down") is None
    assert Mailbox(views, "tos_2").get("up") is None
    sender.drop("up")
    assert receiver.get("up") is None


def test_a_letter_that_is_too_long_is_neither_sent_nor_taken() -> None:
    views = Views()
    mail = Mailbox(views, "tos_1")
    with pytest.raises(RemoteProtocolError, match="at most"):
        mail.put("up", bytes(LARGEST + 1))
    views.stored["tos_1_up"] = [(bytes(LARGEST + 1),)]
    with pytest.raises(RemoteProtocolError, match="at most"):
        mail.get("up")


@pytest.mark.parametrize("rows", [[], [(b"a",), (b"b",)], [("text",)], [(None,)]])
def test_a_view_that_is_no_letter_is_refused(rows: list[tuple[object]]) -> None:
    views = Views()
    views.stored["tos_1_up"] = rows
    with pytest.raises(RemoteProtocolError, match="one row of bytes"):
        Mailbox(views, "tos_1").get("up")


def test_another_error_of_the_server_is_not_an_absent_letter() -> None:
    views = Views()
    views.fails = RuntimeError("UNAVAILABLE")
    with pytest.raises(RuntimeError, match="UNAVAILABLE"):
        Mailbox(views, "tos_1").get("up")
