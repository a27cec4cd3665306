"""Byte X-ray: labels every byte of a bookie's files with a field name of the file format.

Field names and sizes are taken from the layouts that the encoders and decoders also use. Files of
any size can be inspected, because they are read in chunks.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

from labkit.system.model.entry import ENTRY_HEADER
from labkit.system.model.errors import StorageDamagedException
from labkit.system.model.layout import Layout, Span
from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.storage.disk import Disk, File
from labkit.system.storage.entry_log import (
    LEDGERS_MAP_HEADER,
    LEDGERS_MAP_ITEM,
    LOG_ENTRY_HEADER,
    LOG_HEADER,
    MAP_LEDGER_ID,
    log_name,
)
from labkit.system.storage.index.ledger_index import (
    DATA_OFFSET,
    INDEX_HEADER,
    INDEX_SLOT,
    INDEX_STATE,
    index_path,
)
from labkit.system.storage.journal import (
    CONTENT_LENGTH,
    EXPLICIT_LAC,
    FENCE,
    JOURNAL_HEADER,
    LEDGER_KEY,
    PADDING_HEADER,
    RECORD_HEADER,
    header_size,
)
from labkit.system.storage.journal_scan import JournalRecord, JournalScan
from labkit.system.storage.log_mark import LAST_MARK
from labkit.system.storage.log_reader import zeros_to_skip

_SPECIAL = {
    LEDGER_KEY: ("master key", "replay recreates the ledger with it"),
    FENCE: ("fence", "from here on, the bookie accepts only recovery adds"),
    EXPLICIT_LAC: ("explicit LAC", "the writer's LastAddConfirmed"),
}
_NO_ENTRY = {
    "filler": "skipped",
    "too short": "no writer produces this frame size",
    "torn": "incomplete entry: reading stops here",
}
_COOKIE_FIELDS = {
    "bookieHost": "the bookie's id",
    "journalDir": "journal directories as configured",
    "ledgerDirs": "number of directories, then each after a tab",
    "instanceId": "the cluster",
    "indexDirs": "number of directories, then each after a tab; only if configured",
}
_IDS_SIZE = 16
_READ_SIZE = 1024 * 1024
_SHOWN_PAYLOAD_BYTES = 256
_NOT_ZERO = re.compile(rb"[^\0]")


def format_spans(spans: Iterable[Span]) -> str:
    """Return one line per span: offset, size, name, value, meaning."""
    return "\n".join(
        f"{span.offset:6} {span.size:5}  {span.name:<20} {_short(span.value):<28} {span.meaning}"
        for span in spans
    )


# Journal


def journal_spans(disk: Disk, file_id: int, digest_size: int = 4) -> Iterator[Span]:
    """Label a journal of any version. Raises the same errors as `JournalScan`.

    `digest_size` is the size of the entries' digests (4 for CRC32C); it cannot be determined from
    the files.
    """
    scan = JournalScan(disk, file_id)
    with closing(scan.file), closing(disk.open(f"current/{scan.name}")) as file:
        end = header_size(scan.version)
        if file.size() < end:
            raise StorageDamagedException(f"{scan.name}, offset {file.size()}: truncated header")
        head = file.read(0, end).ljust(JOURNAL_HEADER.size, b"\0")
        yield from (span for span in JOURNAL_HEADER.spans(head) if span.offset < end)
        for record in scan.records():
            yield from _padding_spans(file, end, record.offset)
            yield from _record_spans(record, digest_size)
            end = record.offset + LENGTH_SIZE + len(record.body)
        yield from _padding_spans(file, end, scan.end_offset)
        yield from _tail_span(file, scan.end_offset)


def _record_spans(record: JournalRecord, digest_size: int) -> Iterator[Span]:
    offset, _, entry_id, body = record
    data = len(body).to_bytes(LENGTH_SIZE, "big") + body
    if entry_id >= 0:
        yield from framed_spans(RECORD_HEADER, data, offset, digest_size)
        return
    yield from _spans_at(RECORD_HEADER, data, 0, offset)
    rest = RECORD_HEADER.size
    if entry_id in _SPECIAL and len(data) >= rest + CONTENT_LENGTH.size:
        yield from _spans_at(CONTENT_LENGTH, data, rest, offset)
        rest += CONTENT_LENGTH.size
        name, meaning = _SPECIAL[entry_id]
        yield Span(name, offset + rest, len(data) - rest, data[rest:].hex(), meaning)
    elif len(data) > rest:
        yield Span("rest", offset + rest, len(data) - rest, data[rest:].hex(), "meaningless")


def _padding_spans(file: File, start: int, end: int) -> Iterator[Span]:
    while start < end:
        data = file.read(start, PADDING_HEADER.size)
        yield from _spans_at(PADDING_HEADER, data, 0, start)
        zero_count: int = PADDING_HEADER.struct.unpack(data)[1]
        start += PADDING_HEADER.size
        meaning = "so that the next write starts a new block"
        yield Span("zeros", start, zero_count, "zeros", meaning)
        start += zero_count


def _tail_span(file: File, start: int) -> Iterator[Span]:
    size = file.size() - start
    if size and first_nonzero(file, start) is None:
        yield Span("preallocated", start, size, "zeros", "reserved for the next records")
    elif size:
        yield Span("rest", start, size, file.read(start, 16).hex(), "replay stops here")


# Entry log


class LogFrame(NamedTuple):
    """A range of an entry log; `kind` is "entry", "ledgers map" or a key of `_NO_ENTRY`."""

    kind: str
    offset: int
    size: int


def log_frames(file: File, start: int) -> Iterator[LogFrame]:
    """Divide an entry log into frames, following the same rules as `scan_entry_log`."""
    at = filler = start
    end = file.size()
    while len(head := file.read(at, LOG_ENTRY_HEADER.size)) == LOG_ENTRY_HEADER.size:
        length, ledger_id, _ = LOG_ENTRY_HEADER.struct.unpack(head)
        if length <= 0:
            at += 1 if length else zeros_to_skip(file, at)
            continue
        if at > filler:
            yield LogFrame("filler", filler, at - filler)
        filler = at
        if at + LENGTH_SIZE + length > end:
            break
        kind, shortest = "entry", LOG_ENTRY_HEADER.size
        if ledger_id == MAP_LEDGER_ID:
            kind, shortest = "ledgers map", LEDGERS_MAP_HEADER.size
        size = LENGTH_SIZE + length
        yield LogFrame(kind if size >= shortest else "too short", at, size)
        at = filler = at + size
    if end > filler:
        kind = "filler" if first_nonzero(file, filler) is None else "torn"
        yield LogFrame(kind, filler, end - filler)


def entry_log_spans(disk: Disk, log_id: int, digest_size: int = 4) -> Iterator[Span]:
    with closing(disk.open(f"current/{log_name(log_id)}")) as file:
        if file.size() == 0:
            yield Span(
                "nothing", 0, 0, "", "created ahead; the header is written with the first entry"
            )
            return
        yield from LOG_HEADER.spans(_head(file, LOG_HEADER, log_name(log_id)))
        for frame in log_frames(file, LOG_HEADER.size):
            kind, offset, size = frame
            if kind == "entry":
                data = file.read(offset, size)
                yield from framed_spans(LOG_ENTRY_HEADER, data, offset, digest_size)
            elif kind == "ledgers map":
                yield from _map_spans(file.read(offset, size), offset)
            else:
                yield Span(kind, offset, size, file.read(offset, 16).hex(), _NO_ENTRY[kind])


def _map_spans(data: bytes, offset: int) -> Iterator[Span]:
    yield from _spans_at(LEDGERS_MAP_HEADER, data, 0, offset)
    at = LEDGERS_MAP_HEADER.size
    while at + LEDGERS_MAP_ITEM.size <= len(data):
        yield from _spans_at(LEDGERS_MAP_ITEM, data, at, offset)
        at += LEDGERS_MAP_ITEM.size


# Index


def index_spans(disk: Disk, ledger_id: int) -> Iterator[Span]:
    """Label an index. Consecutive slots without a location become one span.

    Raises `StorageDamagedException` if the header is truncated, or if a length in it points past
    its end.
    """
    path = index_path(ledger_id)
    with closing(disk.open(path)) as file:
        data = _head(file, INDEX_HEADER, path) + file.read(INDEX_HEADER.size, DATA_OFFSET)
        data = data[:DATA_OFFSET]
        if len(data) < DATA_OFFSET:
            raise StorageDamagedException(f"{path}, offset {len(data)}: truncated header")
        yield from INDEX_HEADER.spans(data)
        _, version, key_size = INDEX_HEADER.struct.unpack_from(data)
        at = INDEX_HEADER.size + max(key_size, 0)
        if key_size < 0 or at + INDEX_STATE.size > len(data):
            raise StorageDamagedException(
                f"{path}, offset 8: invalid master key of {key_size} bytes"
            )
        key = data[INDEX_HEADER.size : at]
        yield Span(
            "master key", INDEX_HEADER.size, key_size, key.hex(), "every add must contain it"
        )
        yield from _spans_at(INDEX_STATE, data, at, 0)
        lac_size: int = INDEX_STATE.struct.unpack_from(data, at)[1] if version else 0
        at += INDEX_STATE.size
        if not 0 <= lac_size <= len(data) - at:
            raise StorageDamagedException(
                f"{path}, offset {at - 4}: invalid explicit LAC of {lac_size} bytes"
            )
        if lac_size:
            lac = data[at : at + lac_size]
            yield Span("explicit LAC", at, lac_size, lac.hex(), _SPECIAL[EXPLICIT_LAC][1])
            at += lac_size
        yield Span("padding", at, len(data) - at, "zeros", "up to the first slot")
        for first, count, location in index_slots(file):
            yield _slot_span(first, count, location)


def index_slots(file: File) -> Iterator[tuple[int, int, int]]:
    """Yield (first entry id, slot count, location) for each slot that contains a location and, with
    location 0, for each run of empty slots.

    Holes are skipped without being read: an index that contains only entry 2**40 - 1 has a hole of
    8 TiB.
    """
    size = INDEX_SLOT.size
    # If the file ends within a location, the location was never synced.
    entry_id, absent, end = 0, 0, (file.size() - DATA_OFFSET) // size
    while entry_id < end:
        stored = (file.next_data(DATA_OFFSET + entry_id * size) - DATA_OFFSET) // size
        absent += max(0, min(stored, end) - entry_id)
        entry_id = min(max(stored, entry_id), end)
        data = file.read(DATA_OFFSET + entry_id * size, min(_READ_SIZE, (end - entry_id) * size))
        at = 0
        while found := _NOT_ZERO.search(data, at):
            here = found.start() // size * size
            absent += (here - at) // size
            if absent:
                yield entry_id + here // size - absent, absent, 0
                absent = 0
            yield entry_id + here // size, 1, INDEX_SLOT.struct.unpack_from(data, here)[0]
            at = here + size
        absent += (len(data) - at) // size
        entry_id += len(data) // size
    if absent:
        yield entry_id - absent, absent, 0


def _slot_span(first: int, count: int, location: int) -> Span:
    offset, size = DATA_OFFSET + first * INDEX_SLOT.size, count * INDEX_SLOT.size
    if location:
        place = f"{log_name(location >> 32)}, offset {location & 0xFFFFFFFF}"
        return Span(f"entry {first}", offset, size, place, INDEX_SLOT.fields[0].meaning)
    name = f"entry {first}" if count == 1 else f"entries {first}-{first + count - 1}"
    return Span(name, offset, size, "zeros", "no location")


# Small files


def last_mark_spans(file: File) -> Iterator[Span]:
    yield from LAST_MARK.spans(_head(file, LAST_MARK, "lastMark"))
    if file.size() > LAST_MARK.size:
        data = file.read(LAST_MARK.size, 16)
        size = file.size() - LAST_MARK.size
        yield Span("rest", LAST_MARK.size, size, data.hex(), "not part of the format")


def last_id_spans(file: File) -> Iterator[Span]:
    text = file.read(0, _READ_SIZE)
    digits = text.rstrip(b"\n")
    yield Span("log id", 0, len(digits), ascii(digits)[2:-1], "the last one used, in hexadecimal")
    if len(text) > len(digits):
        yield Span("newline", len(digits), len(text) - len(digits), "", "")


def cookie_spans(file: File) -> Iterator[Span]:
    offset = 0
    for line in file.read(0, _READ_SIZE).splitlines(keepends=True):
        name, colon, value = line.decode(errors="replace").strip().partition(": ")
        if colon:
            yield Span(name, offset, len(line), value, _COOKIE_FIELDS.get(name, "unknown"))
        else:
            yield Span(
                "layout version", offset, len(line), name, "5, or 4, which is read in the same way"
            )
        offset += len(line)


# Shared


def first_nonzero(file: File, start: int) -> int | None:
    """Return the offset of the first nonzero byte at or after `start`."""
    at, end = start, file.size()
    while (at := file.next_data(at)) < end:
        chunk = file.read(at, min(_READ_SIZE, end - at))
        rest = chunk.lstrip(b"\0")
        if rest:
            return at + len(chunk) - len(rest)
        at += len(chunk)
    return None


def framed_spans(layout: Layout, data: bytes, offset: int, digest_size: int) -> tuple[Span, ...]:
    """Label an entry and its length field, which is the first field of `layout`."""
    length = next(_spans_at(layout, data, 0, offset))
    return length, *entry_spans(data[LENGTH_SIZE:], offset + LENGTH_SIZE, digest_size)


def entry_spans(entry: bytes, offset: int, digest_size: int) -> tuple[Span, ...]:
    """Label an entry that starts at `offset` and contains at least the two ids."""
    digest, payload = ENTRY_HEADER.size, ENTRY_HEADER.size + digest_size
    header = tuple(_spans_at(ENTRY_HEADER, entry.ljust(digest, b"\0"), 0, offset))
    if len(entry) < payload:
        rest = entry[_IDS_SIZE:]
        short = Span("rest", offset + _IDS_SIZE, len(rest), rest.hex(), "too short for an entry")
        return *header[:2], short
    shown = ascii(entry[payload : payload + _SHOWN_PAYLOAD_BYTES])[1:]
    last = Span("payload", offset + payload, len(entry) - payload, shown, "the client's data")
    if digest_size == 0:
        return *header, last
    value = entry[digest:payload].hex()
    return (
        *header,
        Span("digest", offset + digest, digest_size, value, "checksum of header and payload"),
        last,
    )


def _spans_at(layout: Layout, data: bytes, at: int, base: int) -> Iterator[Span]:
    """Label `data[at:]`; `data` starts at offset `base` in the file."""
    return (replace(span, offset=base + span.offset) for span in layout.spans(data, at))


def _head(file: File, layout: Layout, name: str) -> bytes:
    data = file.read(0, layout.size)
    if len(data) < layout.size:
        raise StorageDamagedException(f"{name}, offset {len(data)}: truncated {layout.name}")
    return data


def _short(value: str) -> str:
    return value if len(value) <= 28 else value[:25] + "..."
