"""Tests the lineage of a message: the text of its rows, and its static picture."""

from dataclasses import replace

import pytest

from labkit.system.model.message_id import MessageId
from labkit.views.widgets.lineage import MessageIdLineage
from labkit.views.widgets.lineage.rows import MAX_BOXES, BoxRow, belongs_to, rows_of
from labkit.views.xray.message_location import Lineage
from tests.views.widgets.films import marks_of, words_in
from tests.views.widgets.lineages import alone, in_a_batch


def chosen(row: BoxRow) -> list[str]:
    return [box.title for box in row.boxes if box.is_chosen]


def test_every_row_chooses_what_the_next_is_about() -> None:
    rows = rows_of(in_a_batch())
    assert [chosen(row) for row in rows[:4]] == [["partition 1"], ["ledger 9"], ["entry 13"], ["2"]]
    assert [row.label for row in rows[1:4]] == ["partition 1", "ledger 9", "entry 13"]
    assert chosen(rows[4]) == ["b1", "b2"]
    assert [box.small for box in rows[4].boxes] == [
        ("not in the write set",),
        ("0.log", "@ 1,432"),
        ("18bcfe56801.txn", "@ 9,728"),
        ("not in its files",),
    ]


def test_a_message_by_itself_is_the_whole_entry_of_a_topic_without_partitions() -> None:
    rows = rows_of(alone())
    assert [chosen(row) for row in rows] == [
        *(["not partitioned"], ["ledger 0"], ["entry 0"], ["the whole entry"], ["b0"]),
    ]


def test_of_many_entries_those_around_the_chosen_one_are_shown() -> None:
    lineage = in_a_batch()
    for entry_id, before in ((0, 0), (13, 10), (24, 18)):
        row = rows_of(replace(lineage, message_id=MessageId(9, entry_id, 1, 2)))[2]
        assert (row.before, len(row.boxes), row.before + row.after) == (before, MAX_BOXES, 18)
        assert chosen(row) == [f"entry {entry_id}"]


def test_an_id_that_means_the_whole_batch_chooses_all_of_its_messages() -> None:
    lineage = replace(in_a_batch(), message_id=MessageId(9, 13, 1, -1))
    assert chosen(rows_of(lineage)[3]) == ["0", "1", "2", "3", "4"]


def test_a_byte_has_the_colour_of_the_part_of_the_id_that_it_tells() -> None:
    lineage = in_a_batch()
    piece = lineage.copies[0].piece
    found: dict[str, list[str]] = {}
    for span in piece.spans:
        found.setdefault(belongs_to(lineage, piece, span), []).append(span.name)
    assert found["ledger"] == ["ledger id"]
    assert found["entry"] == ["entry id"]
    assert found["header"] == ["length", "last add confirmed", "length", "digest"]
    assert found["frame"] == ["magic", "checksum", "metadata size"]
    assert found["own"] == ["message's size", "payload_size", "sequence_id"]
    assert found["payload"] == ["payload"]
    assert found["rest"] == ["messages 0 to 1", "messages 3 to 4"]


def test_a_part_of_the_id_is_marked_in_the_id_in_its_row_and_in_the_bytes() -> None:
    for part, inside in (
        ("ledger", ["ledger id 9: f", "ledger 9, numb", "ledger id 9: t"]),
        ("entry", ["entry id 13: a", "entry 13 of le", "entry id 13: p"]),
        ("batch", ["batch index 2:", "message 2 of t", "message's size"]),
    ):
        titles = [
            mark.children[0].text
            for mark in marks_of(MessageIdLineage(in_a_batch()).scene())
            if f"id-{part}" in str(mark.attributes.get("data-kin", "")).split()
            and mark.children[0].tag == "title"
        ]
        assert [words[:14] for words in titles[:3]] == inside


def test_the_still_picture_tells_the_id_the_files_and_the_bytes() -> None:
    words = words_in(MessageIdLineage(in_a_batch()).svg())
    for line in (
        "ledger id",
        "from the metadata store",
        "persistent://public/default/orders",
        "13 mod 4 = 1, so they start with b1",
        "ledger id 9 · entry id 13",
        "payload 'order 2'",
    ):
        assert line in words


def test_the_picture_shows_the_bytes_of_the_chosen_bookie() -> None:
    view = MessageIdLineage(in_a_batch())
    assert view.bookie == "b1"
    view.bookie = "b2"
    assert "b2, journal" in words_in(view.svg())
    assert view.film["opening"] == view.film["beats"][1][0]
    with pytest.raises(ValueError, match="b0 is not in the write set; expected one of: b1, b2, b3"):
        view.bookie = "b0"


def test_python_knows_which_copy_the_browser_shows() -> None:
    view = MessageIdLineage(in_a_batch())
    view.received(None, {"do": "shown", "seq": 2}, [])
    assert view.bookie == "b3"
    assert view.film["opening"] == view.reel.beats[2].at
    sent = []
    view.observe(lambda change: sent.append(change.new["opening"]), "film")
    view.bookie = "b1"
    assert sent == [view.reel.beats[0].at]


def test_where_no_bookie_has_the_entry_the_picture_says_so() -> None:
    lineage: Lineage = in_a_batch()
    view = MessageIdLineage(replace(lineage, copies=lineage.copies[2:]))
    assert "not in its files" in words_in(view.svg())


def test_the_output_says_in_words_what_the_picture_shows() -> None:
    assert repr(MessageIdLineage(in_a_batch())) == (
        "MessageID 9:13:1:2: persistent://public/default/orders-partition-1, chain of 3, ledger 9,"
        " entry 13, message 2 of 0 to 4; b1 0.log@1432, b2 18bcfe56801.txn@9728,"
        " b3 not in its files"
    )


def test_a_ledger_that_the_topic_has_dropped_is_shown_next_to_its_chain() -> None:
    lineage = in_a_batch()
    view = MessageIdLineage(replace(lineage, chain=lineage.chain[2:]))
    words = words_in(view.svg()).splitlines()
    assert words[words.index("dropped") - 1 : words.index("dropped") + 1] == ["ledger 9", "dropped"]
