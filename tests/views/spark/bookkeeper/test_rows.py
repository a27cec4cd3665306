"""Tests entries as the official client stores them: compressed, chunked, encrypted, damaged."""

import struct
import zlib
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from labkit.system.model import crc32c
from labkit.system.model.entry import Entry
from labkit.system.model.errors import BKDigestMatchException
from labkit.system.model.ledger import LedgerMetadata, Segment
from labkit.system.model.proto.pulsar_pb2 import (
    CompressionType,
    MessageMetadata,
    SingleMessageMetadata,
)
from labkit.views.spark.bookkeeper.columns import MESSAGE_COLUMNS, make_column
from labkit.views.spark.bookkeeper.rows import PayloadError, SpanRows
from labkit.views.spark.bookkeeper.spans import WHOLE, EntrySpan, Lane, LedgerSnapshot

METADATA = LedgerMetadata(3, 2, 2, (Segment(0, ("a", "b", "c")),))
WORDS = [b"the same words again and again, " * 9 + b"%d" % number for number in range(5)]

CODECS: dict[str, Callable[[bytes], bytes]] = {
    "NONE": lambda data: data,
    "LZ4": lambda data: pa.Codec("lz4_raw").compress(data, asbytes=True),
    "ZLIB": zlib.compress,
    "ZSTD": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    "SNAPPY": lambda data: pa.Codec("snappy").compress(data, asbytes=True),
}


def metadata(**fields: Any) -> MessageMetadata:
    return MessageMetadata(producer_name="p", sequence_id=7, publish_time=1000, **fields)


def stored(entry_id: int, of: MessageMetadata, payload: bytes, broker_part: bytes = b"") -> Entry:
    head = of.SerializeToString()
    rest = struct.pack(">I", len(head)) + head + payload
    data = broker_part + struct.pack(">HI", 0x0E01, crc32c.value(rest)) + rest
    return Entry(3, entry_id, entry_id - 1, 100, data)


def batch(*payloads: bytes) -> bytes:
    parts: list[bytes] = []
    for number, payload in enumerate(payloads):
        head = SingleMessageMetadata(
            payload_size=len(payload), sequence_id=number, null_value=not payload
        ).SerializeToString()
        parts += (struct.pack(">I", len(head)), head, payload)
    return b"".join(parts)


def rows_of(
    *entries: Entry,
    skip: int = 0,
    stop: int = WHOLE,
    topic: str = "t",
    columns: Collection[str] = tuple(MESSAGE_COLUMNS),
    of: LedgerMetadata = METADATA,
) -> SpanRows:
    ledger = LedgerSnapshot(3, entries[-1].entry_id, 1000)
    lane = Lane(topic, 1)
    span = EntrySpan(ledger, lane, entries[0].entry_id, entries[-1].entry_id, skip, stop)
    rows = SpanRows(span, of, columns)
    for entry in entries:
        rows.add(entry)
    return rows


def column(name: str, rows: SpanRows) -> list[object]:
    made = make_column(name, rows)
    assert len(made) == rows.count
    values: list[object] = made.to_pylist()
    return values


@pytest.mark.parametrize("codec", CODECS)
def test_what_the_client_compressed_is_unpacked(codec: str) -> None:
    plain = batch(*WORDS)
    compressed = CODECS[codec](plain)
    assert codec == "NONE" or len(compressed) < len(plain)
    kind = CompressionType.Value(codec)
    of = metadata(compression=kind, uncompressed_size=len(plain), num_messages_in_batch=5)
    assert column("payload", rows_of(stored(0, of, compressed))) == WORDS


@pytest.mark.parametrize("codec", ["LZ4", "ZLIB", "ZSTD", "SNAPPY"])
def test_a_damaged_compressed_payload_is_reported_by_entry_and_codec(codec: str) -> None:
    of = metadata(compression=CompressionType.Value(codec), uncompressed_size=100)
    with pytest.raises(
        PayloadError, match=rf"entry 4 of ledger 3 \({codec}\)|entry 4 of ledger 3 has"
    ):
        rows_of(stored(4, of, b"\x00no such thing"))


ENCRYPTED = [
    stored(4, metadata(encryption_param=b"iv", partition_key="k"), b"secret"),
    stored(5, metadata(encryption_algo="AES", num_messages_in_batch=3), b"secret"),
]
"""One entry with a single message, and one with a batch."""


@pytest.mark.parametrize("entry", ENCRYPTED)
def test_an_encrypted_payload_is_refused_with_a_way_to_read_the_rest(entry: Entry) -> None:
    said = rf"entry {entry.entry_id} of ledger 3 is encrypted.*\.schema\('ledger.*option 'ledgers'"
    with pytest.raises(PayloadError, match=said):
        rows_of(entry)


def test_ids_and_metadata_of_an_encrypted_topic_need_no_key() -> None:
    needs_key = {"payload", "key", "properties", "event_time", "sequence_id"}
    columns = [name for name in MESSAGE_COLUMNS if name not in needs_key]
    rows = rows_of(*ENCRYPTED, skip=0, stop=2, columns=columns)
    assert column("entry", rows) == [4, 5, 5]
    assert column("batch_index", rows) == [-1, 0, 1]
    assert column("batch_size", rows) == [1, 3, 3]
    assert column("producer", rows) == ["p"] * 3
    for name in columns:
        assert len(column(name, rows)) == 3


@pytest.mark.parametrize("name", ["payload", "key", "properties", "event_time", "sequence_id"])
def test_what_is_inside_an_encrypted_batch_needs_the_key(name: str) -> None:
    with pytest.raises(PayloadError, match="is encrypted"):
        rows_of(ENCRYPTED[1], columns=["entry", name])


def test_the_key_of_an_encrypted_single_message_is_not_encrypted() -> None:
    assert column("key", rows_of(ENCRYPTED[0], columns=["entry", "key"])) == ["k"]


def test_a_chunked_message_has_a_row_for_each_chunk() -> None:
    whole = CODECS["ZSTD"](b"large" * 100)
    parts = [whole[:9], whole[9:]]
    entries = [
        stored(
            number,
            metadata(
                compression=CompressionType.ZSTD,
                uncompressed_size=500,
                uuid="p-7",
                chunk_id=number,
                num_chunks_from_msg=2,
            ),
            part,
        )
        for number, part in enumerate(parts)
    ]
    rows = rows_of(*entries, stored(2, metadata(), b"alone"))
    assert column("payload", rows) == [*parts, b"alone"]
    assert column("uuid", rows) == ["p-7", "p-7", None]
    assert column("chunk_id", rows) == [0, 1, None]
    assert column("chunks", rows) == [2, 2, None]


def test_what_a_broker_put_in_front_is_skipped() -> None:
    front = struct.pack(">HI", 0x0E02, 3) + b"\x08\x01\x10"
    assert column("payload", rows_of(stored(0, metadata(), b"x", front))) == [b"x"]


def test_a_null_payload_is_null_and_an_empty_one_is_not() -> None:
    rows = rows_of(stored(0, metadata(num_messages_in_batch=2), batch(b"x", b"")))
    assert column("payload", rows) == [b"x", None]
    rows = rows_of(stored(0, metadata(null_value=True), b""), stored(1, metadata(), b""))
    assert column("payload", rows) == [None, b""]


def test_a_message_that_its_producer_did_not_write_so_is_refused() -> None:
    entry = stored(4, metadata(), b"x")
    damaged = Entry(3, 4, 3, 100, entry.payload[:-1] + b"y")
    with pytest.raises(BKDigestMatchException, match="entry 4 of ledger 3"):
        rows_of(damaged)


def test_skip_and_stop_count_messages_of_the_first_and_last_entry() -> None:
    three = metadata(num_messages_in_batch=3)
    entries = [stored(number, three, batch(b"a", b"b", b"c")) for number in range(3)]
    rows = rows_of(*entries, skip=2, stop=1)
    assert column("entry", rows) == [0, 1, 1, 1, 2]
    assert column("batch_index", rows) == [2, 0, 1, 2, 0]
    assert column("batch_size", rows) == [3] * 5
    assert column("sequence_id", rows) == [2, 0, 1, 2, 0]


def test_batched_and_single_messages_share_a_batch_of_rows() -> None:
    entries = [
        stored(0, metadata(num_messages_in_batch=2), batch(b"a", b"b")),
        stored(1, metadata(partition_key="k", event_time=5), b"c"),
    ]
    rows = rows_of(*entries)
    assert column("batch_index", rows) == [0, 1, -1]
    assert column("key", rows) == [None, None, "k"]
    assert [bool(time) for time in column("event_time", rows)] == [False, False, True]
    assert column("write_set", rows) == [["a", "b"], ["a", "b"], ["b", "c"]]
    assert column("ensemble", rows) == [["a", "b", "c"]] * 3


def test_rows_have_the_ensemble_and_the_write_set_of_their_entry() -> None:
    changed = replace(METADATA, segments=(*METADATA.segments, Segment(2, ("a", "d", "c"))))
    entries = [stored(entry_id, metadata(), b"x") for entry_id in range(1, 4)]
    rows = rows_of(*entries, of=changed)
    assert column("ensemble", rows) == [["a", "b", "c"], ["a", "d", "c"], ["a", "d", "c"]]
    assert column("write_set", rows) == [["b", "c"], ["c", "a"], ["a", "d"]]


def test_entries_of_ledgers_stay_as_they_are() -> None:
    rows = rows_of(Entry(3, 0, -1, 4, b"any\x00"), topic="")
    assert column("payload", rows) == [b"any\x00"]
    assert (column("entry", rows), column("length", rows)) == ([0], [4])


def test_numbers_are_signed_as_java_reads_them_and_a_time_that_spark_lacks_is_null() -> None:
    numbers = [5, (1 << 64) - 5, 1 << 63, 1_700_000_000_000_000_000]
    entries = [
        stored(
            place,
            MessageMetadata(
                producer_name="p", sequence_id=number, publish_time=number, event_time=number
            ),
            b"x",
        )
        for place, number in enumerate(numbers)
    ]
    rows = rows_of(*entries)
    assert column("sequence_id", rows) == [5, -5, -(1 << 63), numbers[3]]
    for name in ("publish_time", "event_time"):
        times = make_column(name, rows).cast(pa.int64()).to_pylist()
        assert times == [5000, -5000, None, None], name


def test_a_text_that_is_not_utf_8_is_replaced_as_in_java() -> None:
    entry = stored(0, metadata(partition_key="AB"), b"x")
    _, _, rest = entry.payload.partition(b"\x0e\x01")
    rest = rest[4:].replace(b"AB", b"\xffB")
    data = struct.pack(">HI", 0x0E01, crc32c.value(rest)) + rest
    assert column("key", rows_of(Entry(3, 0, -1, 100, data))) == ["\ufffdB"]


def test_rows_have_the_size_of_their_unpacked_payloads() -> None:
    plain = bytes(100_000)
    of = metadata(compression=CompressionType.ZSTD, uncompressed_size=len(plain))
    assert rows_of(stored(0, of, CODECS["ZSTD"](plain))).size_bytes == len(plain)
