import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.model.message_id import MessageId
from labkit.views.spark.bookkeeper.offsets import (
    after_rows,
    before_first_entry,
    decode_offset,
    encode_offset,
    just_before,
    order,
)
from labkit.views.spark.bookkeeper.options import OptionError, Options, read_options
from labkit.views.spark.bookkeeper.spans import (
    WHOLE,
    EntrySpan,
    Lane,
    LedgerSnapshot,
    starting_after,
)

ORDERS, PAYMENTS = "persistent://public/default/orders", "persistent://public/default/payments"
LANE = Lane(ORDERS, 2)


def options(**given: str) -> Options:
    return read_options({"zookeeper": "h:1", **given})


def span(entries: int, skip: int = 0, stop: int = WHOLE) -> EntrySpan:
    ledger = LedgerSnapshot(7, entries - 1, 100)
    return EntrySpan(ledger, LANE, 0, entries - 1, skip, stop)


@pytest.mark.parametrize("option", ["topic", "topics"])
def test_an_offset_reads_as_message_ids_by_partition(option: str) -> None:
    offset = {Lane(ORDERS, 1): MessageId(13, 7, 1, 4), Lane(ORDERS, 0): MessageId(12, 345, 0)}
    query = options(**{option: "orders"})
    encoded = encode_offset(offset, query)
    assert json.dumps(encoded) == '{"0": "12:345:0:-1", "1": "13:7:1:4"}'
    assert decode_offset(encoded, query) == offset


@pytest.mark.parametrize("given", [{"topics": "orders,payments"}, {"topicsPattern": "o.*"}])
def test_an_offset_of_several_topics_reads_as_message_ids_by_topic_and_partition(
    given: dict[str, str],
) -> None:
    offset = {Lane(PAYMENTS, -1): MessageId(13, 7), Lane(ORDERS, 0): MessageId(12, 345, 0)}
    encoded = encode_offset(offset, options(**given))
    assert encoded == {ORDERS: {"0": "12:345:0:-1"}, PAYMENTS: {"-1": "13:7:-1:-1"}}
    assert decode_offset(encoded, options(**given)) == offset
    assert decode_offset(encoded, options(topic="orders")) == offset


def test_an_offset_of_one_topic_is_refused_by_a_query_over_several() -> None:
    with pytest.raises(OptionError, match="checkpoint belongs to a query over one topic"):
        decode_offset({"0": "12:345:0:-1"}, options(topics="orders,payments"))


def test_an_offset_of_nothing_comes_back_from_json() -> None:
    query = options(ledgers="3-")
    offset = {Lane("", 3): before_first_entry(-1), Lane("", 4): before_first_entry(-1, 4)}
    assert decode_offset(json.loads(json.dumps(encode_offset(offset, query))), query) == offset


def test_a_whole_entry_is_later_than_its_messages() -> None:
    whole, part = MessageId(1, 2, 0), MessageId(1, 2, 0, 9)
    assert order(whole) > order(part)


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
        rest = EntrySpan(span(len(sizes)).ledger, LANE, start.entry_id, len(sizes) - 1, start.slot)
        at, count = after_rows(rest, sizes[start.entry_id :], step)
        taken.append(count)
        assert 0 < count <= step
    assert sum(taken) == sum(sizes)
    assert set(taken[:-1]) <= {step}
