from labkit.system.model.message_id import MessageId
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.views.spark.bookkeeper.backlog import Backlog, backlog
from labkit.views.spark.bookkeeper.offsets import before_first_entry

CHAIN = [LedgerInfo(3, 10, 1000), LedgerInfo(5, 4, 40), LedgerInfo(8, 6, 60)]
NEWEST = MessageId(8, 5)


def test_before_the_first_message_the_backlog_is_the_whole_chain() -> None:
    assert backlog(CHAIN, before_first_entry(-1), NEWEST) == Backlog(20, 1100)
    assert backlog(CHAIN, before_first_entry(-1, 3), NEWEST) == Backlog(20, 1100)


def test_entries_that_were_read_do_not_count() -> None:
    assert backlog(CHAIN, MessageId(3, 7), NEWEST) == Backlog(12, 300)
    assert backlog(CHAIN, MessageId(5, 3), NEWEST) == Backlog(6, 60)


def test_an_entry_that_was_read_in_part_counts() -> None:
    assert backlog(CHAIN, MessageId(8, 4, -1, 2), NEWEST) == Backlog(2, 20)


def test_entries_after_the_newest_one_do_not_count() -> None:
    assert backlog(CHAIN, MessageId(3, 9), MessageId(5, 1)) == Backlog(2, 20)


def test_a_query_that_has_read_everything_has_no_backlog() -> None:
    assert backlog(CHAIN, NEWEST, NEWEST) == Backlog(0, 0)
    assert backlog([], before_first_entry(-1), before_first_entry(-1)) == Backlog(0, 0)


def test_a_deleted_ledger_does_not_count() -> None:
    assert backlog(CHAIN[1:], MessageId(3, 7), NEWEST) == Backlog(10, 100)
