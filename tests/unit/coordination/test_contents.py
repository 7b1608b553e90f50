from __future__ import annotations

import json

from tos_notebook.common.content import Beginning, Content
from tos_notebook.coordination.contents import Contents
from tos_notebook.coordination.ledger import Ledger


def test_the_first_content_of_a_partition_counts_until_another_layout() -> None:
    contents = Contents()
    assert contents.keep(1, Content(3, "a")) == Content(3, "a")
    assert contents.keep(1, Content(4, "b")) == Content(3, "a")
    contents.turn(2)
    assert contents.keep(1, Content(4, "b")) == Content(4, "b")


def test_an_earlier_layout_is_known_until_every_partition_of_the_next_one_is() -> None:
    contents = Contents()
    for partition in (0, 1):
        contents.keep(partition, Content(3, "a"))
    assert contents.turn(2)
    contents.keep(0, Content(4, "b"))
    assert contents.to_json(0, 2)["earlier"] == [[0, 3, "a"], [1, 3, "a"]]
    assert Contents.from_json(contents.to_json(0, 2)).earlier == contents.earlier
    contents.keep(1, Content(4, "c"))
    assert contents.to_json(0, 2)["earlier"] == []


def test_a_layout_of_which_not_all_is_known_does_not_take_the_place_of_the_one_before() -> None:
    contents = Contents()
    contents.keep(0, Content(3, "a"))
    assert contents.turn(1)
    contents.keep(0, Content(2, "b"))
    assert not contents.turn(2)
    assert (contents.earlier, contents.held) == ({0: Content(3, "a")}, {})


def test_a_stream_is_known_up_to_its_last_committed_push() -> None:
    ledger = Ledger(2)
    ledger.begin(0, 1, 0)
    for sequence, digest in enumerate("abc"):
        ledger.admit(0, 0, 1, sequence, 1)
        ledger.contents.commit(0, 0, digest, 1, 2)
    assert ledger.contents.streamed(0, 0) == "c"
    ledger.revoke(0, 0, 1, 2)
    assert ledger.contents.streamed(0, 0) == "b"
    assert ledger.contents.streamed(1, 0) == ledger.contents.streamed(0, 1) == ""


def test_the_first_push_of_a_stream_can_be_revoked() -> None:
    contents = Contents()
    contents.commit(0, 0, "a", 1, 2)
    contents.revoke(0, 0)
    contents.revoke(0, 1)
    assert contents.streamed(0, 0) == ""
    assert contents.streams() == contents.beginnings() == []


def test_only_two_epochs_of_a_stream_are_kept() -> None:
    contents = Contents()
    for epoch in range(50):
        contents.commit(epoch, 0, f"{epoch}", 1, 1)
        contents.commit(epoch, 0, "more", 1, 1)
    assert contents.streams() == [(48, 0), (49, 0)]
    contents.commit(50, 0, "first", 1, 1)
    contents.revoke(50, 0)
    assert [begun.epoch for begun in contents.beginnings()] == [49]


def test_contents_come_back_from_a_checkpoint_with_the_ledger() -> None:
    ledger = Ledger(2)
    ledger.contents.keep(1, Content(3, "a"))
    for epoch in (4, 5):
        ledger.contents.commit(epoch, 0, "b", 1, 2)
    back = Ledger.from_json(json.loads(json.dumps(ledger.to_json(5)))).contents
    assert back.held == {1: Content(3, "a")}
    assert (back.streamed(4, 0), back.streamed(5, 0)) == ("", "b")
    assert back.streams() == [(5, 0)]


def test_between_two_epochs_it_is_known_how_the_streams_began_in_the_one_before() -> None:
    contents = Contents()
    for epoch in range(3):
        for partition in range(2):
            contents.commit(epoch, partition, f"{epoch}{partition}", 4, 2)
            contents.commit(epoch, partition, "more", 1, 2)
    back = Contents.from_json(json.loads(json.dumps(contents.to_json(3, 2))))
    assert back.streams() == []
    assert back.beginnings() == [Beginning(2, 0, 2, 4, "20"), Beginning(2, 1, 2, 4, "21")]


def test_after_a_repartition_each_stream_is_compared_where_it_was_trained_last() -> None:
    contents = Contents()
    for partition in range(3):
        contents.commit(0, partition, "a", 4, 3)
    contents.turn(3)
    contents.commit(1, 0, "b", 2, 2)
    back = Contents.from_json(contents.to_json(1, 2))
    assert [(b.epoch, b.partitions, b.digest) for b in back.beginnings()] == [
        (1, 2, "b"),
        (0, 3, "a"),
        (0, 3, "a"),
    ]
