from dataclasses import replace
from itertools import pairwise

import pulsar
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.message_id import EARLIEST, LATEST, MessageId

ids = st.builds(
    MessageId, st.integers(0, 99), st.integers(0, 99), st.integers(-1, 3), st.integers(-1, 99)
)


@given(ids)
def test_the_printed_id_parses_to_itself(message_id: MessageId) -> None:
    assert MessageId.parse(str(message_id)) == message_id


def test_an_id_is_printed_as_ledger_entry_partition_batch_index() -> None:
    assert str(MessageId(12, 34, 5, 6)) == "12:34:5:6"
    assert str(MessageId(12, 34)) == "12:34:-1:-1"


@given(st.lists(ids.map(lambda i: replace(i, partition=0))))
def test_ids_of_a_partition_order_by_ledger_entry_and_batch_index(some: list[MessageId]) -> None:
    by_numbers = sorted(some, key=lambda i: (i.ledger_id, i.entry_id, i.batch_index))
    assert sorted(some) == by_numbers
    assert all(a <= b and b >= a for a, b in pairwise(by_numbers))


@pytest.mark.parametrize("other", [MessageId(1, 1, 1), MessageId(1, 1, -1), (1, 1, 0, -1), 5])
def test_ids_of_different_partitions_do_not_compare(other: object) -> None:
    with pytest.raises(TypeError):
        MessageId(1, 1, 0) < other  # noqa: B015
    with pytest.raises(TypeError):
        MessageId(1, 1, 0) >= other  # noqa: B015
    assert MessageId(1, 1, 0) != other


@pytest.mark.parametrize(
    "text",
    [
        "",
        *("1:2", "1:2:3", "1:2:3:4:5", "1::2:3", "a:2:-1:-1", "1.0:2:-1:-1"),
        *("-1:2:-1:-1", "1:-1:-1:-1", "1:2:-2:-1", "1:2:-1:-2"),
        *(" 1:2:-1:-1", "1:2:-1:-1\n", "+1:2:-1:-1", "1_0:2:-1:-1", "01:2:-1:-1", "-0:2:-1:-1"),
        "١:2:-1:-1",
    ],
)
def test_anything_else_is_rejected_with_the_form_that_is_allowed(text: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match="ledgerId:entryId:partition:batch"):
        MessageId.parse(text)


# Comparison with Pulsar's own client

NUMBERS = st.integers(0, 2**63 - 1)
SMALL = st.integers(-1, 2**31 - 1)
client_ids = st.builds(
    MessageId, NUMBERS, st.integers(-1, 2**63 - 1), SMALL, SMALL, st.integers(0, 2**31 - 1)
) | st.sampled_from([EARLIEST, LATEST])


def chunked(last: MessageId, first_entry: int) -> MessageId:
    first = MessageId(last.ledger_id, first_entry, last.partition)
    return MessageId(last.ledger_id, last.entry_id, last.partition, first_chunk=first)


def of_the_client(message_id: MessageId) -> pulsar.MessageId:
    return pulsar.MessageId.wrap(pulsar.MessageId.deserialize(message_id.to_bytes()))


@pytest.mark.promise("MessageIDs have the bytes and the order of Pulsar's own client")
@given(client_ids | st.builds(chunked, client_ids, NUMBERS))
def test_the_client_reads_and_writes_the_same_bytes(message_id: MessageId) -> None:
    theirs = of_the_client(message_id)
    numbers = theirs.ledger_id(), theirs.entry_id(), theirs.partition(), theirs.batch_index()
    assert numbers == (
        *(message_id.ledger_id, message_id.entry_id),
        *(message_id.partition, message_id.batch_index),
    )
    assert theirs.serialize() == message_id.to_bytes()


@given(client_ids | st.builds(chunked, client_ids, NUMBERS))
def test_the_bytes_give_the_id_with_all_its_parts(message_id: MessageId) -> None:
    again = MessageId.from_bytes(message_id.to_bytes())
    assert repr(again) == repr(message_id)


@pytest.mark.parametrize(
    ("message_id", "serialized"),
    [
        (MessageId(1019, 0), "08fb071000"),
        (MessageId(1001, 1, batch_index=1, batch_size=100), "08e907100120013064"),
        (MessageId(1001, 0, 0, 2), "08e907100018002002"),
        (chunked(MessageId(1085, 2), 0), "08bd0810023a0508bd081000"),
        (MessageId(5, -1), "080510" + "ff" * 9 + "01"),
    ],
)
def test_a_part_of_minus_one_takes_no_bytes_except_ledger_and_entry(
    message_id: MessageId, serialized: str
) -> None:
    assert message_id.to_bytes().hex() == serialized


def test_earliest_and_latest_are_the_clients() -> None:
    assert EARLIEST.to_bytes() == pulsar.MessageId.earliest.serialize()
    assert LATEST.to_bytes() == pulsar.MessageId.latest.serialize()


@given(st.lists(client_ids.map(lambda i: MessageId(i.ledger_id % 3, i.entry_id % 3, 0, -1))))
def test_ids_of_a_partition_are_in_the_clients_order(some: list[MessageId]) -> None:
    for one, other in pairwise(some):
        assert (one < other) == (of_the_client(one) < of_the_client(other))
        assert (one == other) == (of_the_client(one) == of_the_client(other))


def test_an_entry_comes_before_the_messages_of_its_batch() -> None:
    entry, first = MessageId(1, 1), MessageId(1, 1, batch_index=0, batch_size=10)
    assert entry < first
    assert entry != first
    assert of_the_client(entry) < of_the_client(first)
    assert of_the_client(entry) != of_the_client(first)


def test_batch_size_and_first_chunk_make_no_other_id() -> None:
    plain = MessageId(1085, 2, batch_index=1)
    sized = MessageId(1085, 2, batch_index=1, batch_size=5)
    assert plain == sized
    assert hash(plain) == hash(sized)
    assert MessageId(1085, 2) == chunked(MessageId(1085, 2), 0)
    assert of_the_client(plain) == of_the_client(sized)


@given(ids)
def test_earliest_and_latest_enclose_the_ids_of_every_partition(message_id: MessageId) -> None:
    assert EARLIEST < message_id < LATEST
    assert LATEST >= message_id >= EARLIEST


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x08\x01", b"1:2:-1:-1"])
def test_other_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(BKIncorrectParameterException, match="expected a MessageID"):
        MessageId.from_bytes(data)


def test_earliest_and_latest_are_printed_and_parsed() -> None:
    assert MessageId.parse(str(EARLIEST)) == EARLIEST
    assert MessageId.parse(str(LATEST)) == LATEST
