"""Tests that the programs of lesson 15 lose no acknowledged data and leave nothing behind."""

import pytest

from labkit.course.runs.do_step import Do
from labkit.course.runs.uses import stories
from labkit.course.runs.uses.edit_log import READ, REPLAY, TAKE_OVER, NameNode, StandbyError
from labkit.course.runs.uses.ledger_list import LedgerList, ListChangedError
from labkit.course.runs.uses.offset_store import NotOpenError, OffsetStore, newest
from labkit.course.runs.uses.snapshot_store import SnapshotStore, SupersededError
from labkit.worlds.sim.nodes.nodes import ClientNode

COMMITS = [("a", 5), ("b", 3), ("a", 9), ("a", 4), ("b", None), ("c", 7)]


def in_the_world(action: object) -> object:
    step = Do(action)  # type: ignore[arg-type]
    stories.play([step])
    return step.result()


@pytest.mark.parametrize("dies_after", [None, *range(len(TAKE_OVER))])
def test_no_answered_edit_is_lost_though_the_other_name_node_goes_on(
    dies_after: int | None,
) -> None:
    ran = stories.name_nodes(dies_after=dies_after)
    assert ran.lost() == []
    assert {edit.node for edit in ran.answered} >= {"n1", "n3"}


def test_a_name_node_that_replays_before_it_recovers_misses_edits() -> None:
    early = (READ, REPLAY, *(step for step in TAKE_OVER if step not in (READ, REPLAY)))
    assert {node for node, _ in stories.name_nodes(early).lost()} == {"n2"}


def test_a_name_node_on_standby_answers_nothing() -> None:
    async def mkdir(node: ClientNode) -> None:
        await NameNode(node.client).mkdir("/a")

    with pytest.raises(StandbyError, match="use the other one"):
        in_the_world(mkdir)


def test_of_two_programs_that_read_the_same_list_one_may_replace_it() -> None:
    async def replace_twice(node: ClientNode) -> tuple[int, ...]:
        lists = [LedgerList(node.client.store, "/list") for _ in range(2)]
        for each in lists:
            await each.read()
        await lists[0].replace((1,))
        with pytest.raises(ListChangedError):
            await lists[1].replace((2,))
        return await lists[1].read()

    assert in_the_world(replace_twice) == (1,)


@pytest.mark.parametrize("records_per_ledger", [2, 3, 100])
@pytest.mark.parametrize("dies_after", [None, 1, 2, 3, 4, 5, 6, 7])
def test_every_answered_commit_is_found_by_the_next_client(
    dies_after: int | None, records_per_ledger: int
) -> None:
    ran = stories.offsets(COMMITS, newest, dies_after, records_per_ledger)
    assert ran.found in ran.allowed(COMMITS)


def test_an_offset_store_of_many_commits_has_one_ledger() -> None:
    ran = stories.offsets([("a", number) for number in range(20)], records_per_ledger=4)
    assert (ran.found, ran.ledger_count) == ({"a": 19}, 1)


def test_an_offset_store_is_opened_before_it_takes_commits() -> None:
    async def commit(node: ClientNode) -> None:
        await OffsetStore(node.client).commit("a", 1)

    with pytest.raises(NotOpenError):
        in_the_world(commit)


def test_of_two_snapshots_made_at_the_same_time_one_gets_the_name() -> None:
    ran = stories.snapshots()
    refused = [name for name, result in ran.stored.items() if isinstance(result, SupersededError)]
    assert refused in (["p2"], ["p3"])
    assert ran.read == b"p4" * 200


def test_when_all_snapshots_are_stored_only_the_newest_ledger_is_left() -> None:
    ran = stories.snapshots()
    assert ran.left == (ran.stored["p4"],)


def test_a_snapshot_that_was_never_stored_is_not_found() -> None:
    async def get(node: ClientNode) -> None:
        await SnapshotStore(node.client).get("names")

    with pytest.raises(KeyError, match="names"):
        in_the_world(get)
