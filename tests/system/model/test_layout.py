import struct

import pytest

from labkit.system.model.entry import ENTRY_HEADER
from labkit.system.model.layout import Field, Layout, Span
from labkit.system.model.wire import ADD_REQUEST, READ_REQUEST, RESPONSE
from labkit.system.storage.entry_log import LEDGERS_MAP_HEADER, LEDGERS_MAP_ITEM, LOG_HEADER
from labkit.system.storage.index.ledger_index import INDEX_HEADER
from labkit.system.storage.journal import JOURNAL_HEADER, PADDING_HEADER, RECORD_HEADER
from labkit.system.storage.log_mark import LAST_MARK

SIZES = {
    ENTRY_HEADER: 32,
    ADD_REQUEST: 24,
    READ_REQUEST: 20,
    RESPONSE: 24,
    JOURNAL_HEADER: 512,
    RECORD_HEADER: 20,
    PADDING_HEADER: 8,
    LOG_HEADER: 1024,
    LEDGERS_MAP_HEADER: 24,
    LEDGERS_MAP_ITEM: 16,
    INDEX_HEADER: 12,
    LAST_MARK: 16,
}
LAYOUT = Layout(
    "example", Field("magic", "4s", "m"), Field("zeros", "3x", "z"), Field("number", "i", "n")
)


@pytest.mark.parametrize("layout", SIZES, ids=lambda layout: layout.name)
def test_layout_has_bookkeepers_size(layout: Layout) -> None:
    assert layout.size == SIZES[layout] == sum(field.size for field in layout.fields)


@pytest.mark.parametrize("layout", SIZES, ids=lambda layout: layout.name)
def test_spans_cover_the_layout_without_gap_or_overlap(layout: Layout) -> None:
    at = 7
    for span in layout.spans(bytes(7 + layout.size), 7):
        assert span.offset == at
        at += span.size
    assert at == 7 + layout.size


def test_a_span_tells_name_place_value_and_meaning() -> None:
    assert list(LAYOUT.spans(b"..BKLG\0\0\0\xff\xff\xff\xfe", 2)) == [
        Span("magic", 2, 4, "BKLG", "m"),
        Span("zeros", 6, 3, "zeros", "z"),
        Span("number", 9, 4, "-2", "n"),
    ]


def test_bytes_that_do_not_print_are_shown_in_hex() -> None:
    assert next(LAYOUT.spans(b"\0\1\xfe\xff" + bytes(7))).value == "0001feff"


def test_a_layout_that_is_cut_short_has_no_spans() -> None:
    with pytest.raises(struct.error):
        list(LAYOUT.spans(bytes(LAYOUT.size - 1)))
