"""Byte X-ray: every byte of a journal under the name that the format gives it."""

import struct
from collections.abc import Iterable, Iterator

from labkit.model.entry import ENTRY_HEADER
from labkit.model.layout import Span
from labkit.storage.disk import Disk
from labkit.storage.journal import (
    EXPLICIT_LAC,
    FENCE,
    JOURNAL_HEADER,
    LEDGER_KEY,
    PADDING_HEADER,
    RECORD_HEADER,
)
from labkit.storage.journal_scan import JournalRecord, JournalScan
from labkit.storage.log_mark import LogMark

_SPECIAL = {
    LEDGER_KEY: ("master key", "replay creates the ledger again with it"),
    FENCE: ("fence", "from here on the ledger takes only recovery's adds"),
    EXPLICIT_LAC: ("explicit LAC", "how far the writer had confirmed"),
}
_LENGTH_SIZE = 4


def journal_spans(disk: Disk, file_id: int, digest_size: int = 4) -> Iterator[Span]:
    """Name the bytes of a journal of version 5 or 6, from its header to its last record.

    `digest_size` tells digest and payload apart, which only the ledger's clients can (4: CRC32C).
    Raises what `JournalScan` raises.
    """
    file = disk.open(f"current/{LogMark(file_id, 0).file_name}")
    data = file.read(0, file.size())
    file.close()
    yield from JOURNAL_HEADER.spans(data)
    end = JOURNAL_HEADER.size
    scan = JournalScan(disk, file_id)
    for record in scan.records():
        yield from _padding_spans(data, end, record.offset)
        yield from _record_spans(data, record, digest_size)
        end = record.offset + _LENGTH_SIZE + len(record.body)
    yield from _padding_spans(data, end, scan.end_offset)


def format_spans(spans: Iterable[Span]) -> str:
    """One line per span: offset, size, name, value, meaning."""
    return "\n".join(
        f"{span.offset:6} {span.size:5}  {span.name:<20} {_short(span.value):<28} {span.meaning}"
        for span in spans
    )


def _padding_spans(data: bytes, start: int, end: int) -> Iterator[Span]:
    if end > start:
        yield from PADDING_HEADER.spans(data, start)
        zeros = start + PADDING_HEADER.size
        yield Span("zeros", zeros, end - zeros, "zeros", "so that the next write begins a block")


def _record_spans(data: bytes, record: JournalRecord, digest_size: int) -> Iterator[Span]:
    yield from RECORD_HEADER.spans(data, record.offset)
    rest = record.offset + RECORD_HEADER.size
    if record.entry_id >= 0:
        yield from _entry_spans(data, record, digest_size)
    elif record.entry_id in _SPECIAL and record.entry_id != FENCE:
        name, meaning = _SPECIAL[record.entry_id]
        size = struct.unpack_from(">i", data, rest)[0]
        yield Span("length", rest, _LENGTH_SIZE, str(size), "bytes that follow")
        body = data[rest + _LENGTH_SIZE :][:size]
        yield Span(name, rest + _LENGTH_SIZE, size, body.hex(), meaning)


def _entry_spans(data: bytes, record: JournalRecord, digest_size: int) -> Iterator[Span]:
    entry = record.offset + _LENGTH_SIZE
    # The ids are the record header's last two fields: each byte has one name.
    yield from (s for s in ENTRY_HEADER.spans(data, entry) if s.offset >= entry + 16)
    digest = entry + ENTRY_HEADER.size
    payload = digest + digest_size
    size = entry + len(record.body) - payload
    shown = data[payload : payload + size]
    yield Span("digest", digest, digest_size, data[digest:payload].hex(), "of header and payload")
    yield Span("payload", payload, size, ascii(shown)[1:], "what the client gave")


def _short(value: str) -> str:
    return value if len(value) <= 28 else value[:25] + "..."
