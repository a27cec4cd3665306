import json

from hypothesis import given
from hypothesis import strategies as st

from labkit.system.model.ledger import LedgerMetadata, Segment
from labkit.system.model.message_id import MessageId
from labkit.views.spark.bookkeeper.offsets import (
    after_rows,
    before_first_entry,
    decode_offset,
    earlier,
    encode_offset,
    just_before,
    later,
)
from labkit.views.spark.bookkeeper.spans import WHOLE, EntrySpan, LedgerSnapshot, starting_after

METADATA = LedgerMetadata(1, 1, 1, (Segment(0, ("a",)),))


def span(entries: int, skip: int = 0, stop: int = WHOLE) -> EntrySpan:
    return EntrySpan(LedgerSnapshot(7, METADATA, entries - 1, 100), 2, 0, entries - 1, skip, stop)


def test_an_offset_reads_as_message_ids_by_partition() -> None:
    offset = {1: MessageId(13, 7, 1, 4), 0: MessageId(12, 345, 0)}
    assert json.dumps(encode_offset(offset)) == '{"0": "12:345:0:-1", "1": "13:7:1:4"}'
    assert decode_offset(encode_offset(offset)) == offset


def test_an_offset_of_nothing_comes_back_from_json() -> None:
    offset = {0: before_first_entry(0), 1: before_first_entry(1, 5)}
    assert decode_offset(json.loads(json.dumps(encode_offset(offset)))) == offset


def test_a_whole_entry_is_later_than_its_messages() -> None:
    whole, part = MessageId(1, 2, 0), MessageId(1, 2, 0, 9)
    assert later(whole, part) == whole
    assert earlier(whole, part) == part


def test_before_an_id_lies_the_message_before_it() -> None:
    assert just_before(MessageId(1, 2, 0, 3)) == MessageId(1, 2, 0, 2)
    assert just_before(MessageId(1, 2, 0, 0)) == MessageId(1, 1, 0)
    assert just_before(MessageId(1, 0, 0)) == before_first_entry(0, 1)
    assert starting_after(just_before(MessageId(1, 0, 0))).entry_id == 0


def test_rows_end_inside_of_a_batch() -> None:
    assert after_rows(span(3), [4, 4, 4], 6) == (MessageId(7, 1, 2, 1), 6)


def test_rows_that_end_with_a_batch_take_the_whole_entry() -> None:
    assert after_rows(span(3), [4, 4, 4], 8) == (MessageId(7, 1, 2), 8)
    assert after_rows(span(3), [4, 4, 4], 100) == (MessageId(7, 2, 2), 12)


def test_rows_begin_behind_those_given_before() -> None:
    assert after_rows(span(3, skip=3), [4, 4, 4], 2) == (MessageId(7, 1, 2, 0), 2)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(1, 10))
def test_steps_of_any_size_take_every_row_once(sizes: list[int], step: int) -> None:
    taken, at = [], before_first_entry(2, 7)
    while at.entry_id < len(sizes) - 1 or at.batch_index >= 0:
        start = starting_after(at)
        rest = EntrySpan(span(len(sizes)).ledger, 2, start.entry_id, len(sizes) - 1, start.slot)
        at, count = after_rows(rest, sizes[start.entry_id :], step)
        taken.append(count)
        assert 0 < count <= step
    assert sum(taken) == sum(sizes)
    assert set(taken[:-1]) <= {step}
