"""Test when the fence of a bookie counts as durable."""

import pytest

from labkit.system.check import Outcome
from labkit.system.check.promises.fencing import (
    FencedBookieRefusesTheWriter,
    FenceIsDurableBeforeItsAnswer,
)
from tests.system.check.story import B0, R, Story

LAC_AT, FENCE_AT = 512, 1024


def fenced_while_a_lac_is_synced(synced: int) -> Story:
    """Let b0 append an explicit LAC and then a fence, and sync only the record at this offset."""
    story = Story().add(0).push(1).tell(R, "recovery.started").tell(R, "fence.sent", peer=B0)
    story.tell(B0, "journal.lac_appended", file="1.txn", offset=LAC_AT)
    story.tell(B0, "ledger.fenced")
    story.tell(B0, "journal.fence_appended", file="1.txn", offset=FENCE_AT)
    return story.tell(B0, "journal.synced", file="1.txn", offset=synced)


@pytest.mark.parametrize(
    ("synced", "outcome"), [(LAC_AT, Outcome.UNKNOWN), (FENCE_AT, Outcome.INVALID)]
)
def test_a_fence_that_was_lost_with_the_bookie_does_not_bind_it(
    synced: int, outcome: Outcome
) -> None:
    story = fenced_while_a_lac_is_synced(synced).tell(B0, "node.killed").put(1, B0)
    assert story.verdict(FencedBookieRefusesTheWriter).outcome is outcome


@pytest.mark.parametrize(
    ("synced", "outcome"), [(LAC_AT, Outcome.INVALID), (FENCE_AT, Outcome.VALID)]
)
def test_the_sync_of_another_record_makes_no_fence_durable(synced: int, outcome: Outcome) -> None:
    story = fenced_while_a_lac_is_synced(synced).tell(R, "fence.answered", peer=B0).sync(0, B0)
    assert story.verdict(FenceIsDurableBeforeItsAnswer).outcome is outcome


@pytest.mark.parametrize(("is_synced", "outcome"), [(True, "invalid"), (False, "unknown")])
def test_a_formatted_bookie_has_lost_the_fence_that_it_had_synced(
    is_synced: bool, outcome: str
) -> None:
    story = Story().add(0).push(1).fence(B0).tell(B0, "node.killed")
    story.tell(B0, "bookie.formatted").tell(B0, "ledger.fenced").tell(B0, "journal.fence_appended")
    if is_synced:
        story.sync(-1, B0)
    story.tell(B0, "node.killed").put(1, B0)
    assert story.verdict(FencedBookieRefusesTheWriter).outcome == outcome
