"""What the driver knows of nodes: who is there, who is to be fed, and what failed first."""

from __future__ import annotations

from typing import Any

import pytest

from tos_notebook.errors import RemoteProtocolError
from tos_notebook.nodes.roster import DONE, FAILED, LOST, STOPPED, Node, Roster


def meta(number: int, job: str = "worker", **more: Any) -> dict[str, Any]:
    """Return what a node says of itself."""
    own = {"executor_id": number, "job_name": job, "task_index": number, "host": "h"}
    own |= {"port": 1000 + number, "executor": f"h/{number}", "pid": 1, "tb_pid": 0, "tb_port": 0}
    return {**own, "inbox": ["127.0.0.1", 1], "fingerprint": "", **more}


def joined(roster: Roster, *numbers: int, job: str = "worker") -> list[Node]:
    """Let nodes register."""
    found = [roster.add(meta(number, job)) for number in numbers]
    return [node for node in found if node is not None]


def test_a_cluster_is_whole_when_all_have_come_and_has_them_in_order() -> None:
    roster = Roster(3)
    joined(roster, 2, 0)
    assert (roster.whole, roster.remaining) == (False, 1)
    joined(roster, 1)
    assert roster.whole
    assert [each["executor_id"] for each in roster.cluster] == [0, 1, 2]


def test_a_number_is_given_once_unless_its_node_was_lost_before_all_were_there() -> None:
    roster = Roster(2)
    (first,) = joined(roster, 0)
    with pytest.raises(RemoteProtocolError, match="number 0 already"):
        roster.add(meta(0))
    roster.end(first, LOST, "gone")
    assert (roster.failure, roster.lost) == (None, first)
    joined(roster, 1)
    assert (roster.whole, roster.remaining) == (False, 1)
    joined(roster, 0)
    assert (roster.whole, roster.lost) == (True, None)
    roster.end(roster.nodes[0], LOST, "gone again")
    assert roster.failure is roster.nodes[0]
    with pytest.raises(RemoteProtocolError):
        roster.add(meta(0))


def test_the_first_failure_counts_and_the_first_outcome() -> None:
    roster = Roster(2)
    one, two = joined(roster, 0, 1)
    roster.end(one, FAILED, "ValueError: mine", ["line"])
    roster.end(one, LOST, "gone")
    roster.end(two, FAILED, "later")
    assert roster.failure is one
    assert (one.state, one.message, one.frames) == (FAILED, "ValueError: mine", ["line"])


def test_nodes_that_were_told_to_stop_are_not_lost() -> None:
    roster = Roster(1)
    (node,) = joined(roster, 0)
    roster.stop()
    roster.end(node, LOST, "gone")
    assert (node.state, roster.failure) == (STOPPED, None)


def test_tasks_feed_the_node_with_the_fewest_and_of_these_the_nearest() -> None:
    roster = Roster(4)
    joined(roster, 0, job="ps")
    near, far = joined(roster, 1, 2)
    elsewhere = roster.add(meta(3, host="other"))
    assert roster.assign("h/1", "h") is near
    assert roster.assign("h/1", "h") is far
    assert roster.assign("h/1", "h") is elsewhere
    roster.release(far)
    assert roster.assign("h/9", "other") is far


def test_short_tasks_one_after_the_other_take_turns_among_the_nodes() -> None:
    roster = Roster(2)
    one, two = joined(roster, 0, 1)
    fed = []
    for _ in range(4):
        node = roster.assign("h/9", "other")
        assert node is not None
        roster.release(node)
        fed.append(node)
    assert fed == [one, two, one, two]


def test_a_feed_is_unwanted_once_no_node_reads_it() -> None:
    roster = Roster(2)
    assert not roster.unwanted
    one, two = joined(roster, 0, 1)
    roster.end(one, DONE)
    assert not roster.unwanted
    roster.report(two, [], 5, feeding=False)
    assert (roster.unwanted, roster.without_readers) == (True, False)
    roster.end(two, DONE)
    assert (roster.unwanted, roster.without_readers) == (True, True)


def test_all_attempts_of_a_task_feed_one_node_also_when_it_wants_no_more() -> None:
    roster = Roster(2)
    one, two = joined(roster, 0, 1)
    feed = roster.begin_feed()
    assert roster.assign("h/0", "h", feed, 5) is one
    assert roster.assign("h/1", "h", feed, 5) is one
    assert roster.assign("h/0", "h", feed, 6) is two
    roster.report(one, [], 5, feeding=False)
    assert roster.assign("h/1", "h", feed, 5) is None
    assert roster.assign("h/1", "h", feed, 7) is two


def test_who_wants_no_more_rows_is_fed_no_more_and_the_last_one_ends_the_feed() -> None:
    roster = Roster(2)
    one, two = joined(roster, 0, 1)
    roster.report(one, ["a line"], 5, feeding=False)
    assert (list(one.lines), one.rows, roster.done) == (["a line"], 5, False)
    assert roster.assign("h/0", "h") is two
    roster.end(two, DONE)
    assert roster.assign("h/0", "h") is None
    assert roster.all_ended(("worker",)) is False
    roster.end(one, DONE)
    assert roster.all_ended(("worker",))


def test_a_cluster_that_begins_again_forgets_its_nodes_and_takes_none_of_before() -> None:
    roster = Roster(1)
    (before,) = joined(roster, 0)
    roster.end(before, FAILED, "mine")
    roster.stop()
    roster.begin_again()
    assert (roster.whole, roster.failure, roster.stopping, roster.feed_closed) == (
        *(False, None, False, False),
    )
    with pytest.raises(RemoteProtocolError, match="of start 1, but number 0 is of start 0"):
        roster.add(meta(0, start=0))
    (now,) = [roster.add(meta(0, start=1))]
    assert now is not None
    roster.report(before, ["late"], 9, feeding=False)
    assert (roster.done, now.rows, roster.whole) == (False, 0, True)


def test_a_node_that_still_ran_when_its_cluster_began_again_fails_it_no_more() -> None:
    roster = Roster(1)
    (before,) = joined(roster, 0)
    roster.begin_again()
    assert before.state == STOPPED
    roster.end(before, LOST, "gone")
    assert roster.failure is None
