from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.model.errors import BKIncorrectParameterException
from labkit.model.message_id import MessageId

ids = st.builds(
    MessageId, st.integers(0, 99), st.integers(0, 99), st.integers(-1, 3), st.integers(-1, 99)
)


@given(ids)
def test_the_printed_id_parses_to_itself(message_id: MessageId) -> None:
    assert MessageId.parse(str(message_id)) == message_id


def test_an_id_is_printed_as_ledger_entry_partition_batch_index() -> None:
    assert str(MessageId(12, 34, 5, 6)) == "12:34:5:6"


def test_minus_one_stands_for_no_partition_and_no_batch() -> None:
    assert str(MessageId(12, 34)) == "12:34:-1:-1"


@given(st.lists(ids.filter(lambda i: i.partition == 0)))
def test_ids_of_a_partition_order_by_ledger_entry_and_batch_index(some: list[MessageId]) -> None:
    by_numbers = sorted(some, key=lambda i: (i.ledger_id, i.entry_id, i.batch_index))
    assert sorted(some) == by_numbers


def test_a_message_of_a_batch_comes_before_the_next_entry() -> None:
    in_order = [MessageId(1, 1, 0, 0), MessageId(1, 1, 0, 10), MessageId(1, 2, 0, 0)]
    assert all(a < b for a, b in pairwise(in_order))
    assert in_order[0] <= in_order[0] < in_order[1]
    assert in_order[2] > in_order[1] >= in_order[1]


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
def test_anything_else_is_refused_with_the_form_that_is_allowed(text: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match="ledgerId:entryId:partition:batch"):
        MessageId.parse(text)


@given(st.text(max_size=12))
def test_parsing_takes_only_what_printing_gives(text: str) -> None:
    try:
        message_id = MessageId.parse(text)
    except BKIncorrectParameterException:
        return
    assert str(message_id) == text
