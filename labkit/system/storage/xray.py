"""Byte X-ray: every byte of a bookie's files under the name that its format gives it.

All names and sizes come from the declared layouts, so this shows what encoders and decoders use.
Files are read piece by piece, however long they are.
"""

import re
from collections.abc import Iterable, Iterator
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
    EXPLICIT_LAC,
    FENCE,
    JOURNAL_HEADER,
    LEDGER_KEY,
    PADDING_HEADER,
    RECORD_BODY,
    RECORD_HEADER,
    header_size,
)
from labkit.system.storage.journal_scan import JournalRecord, JournalScan
from labkit.system.storage.log_mark import LAST_MARK, LogMark
from labkit.system.storage.log_reader import zeros_at

_SPECIAL = {
    LEDGER_KEY: ("master key", "replay creates the ledger again with it"),
    FENCE: ("fence", "from here on the ledger takes only recovery's adds"),
    EXPLICIT_LAC: ("explicit LAC", "how far the writer had confirmed"),
}
_NO_ENTRY = {
    "filler": "skipped",
    "too short": "no writer leaves a frame of this size",
    "torn": "not a whole entry: reading stops here",
}
_COOKIE_FIELDS = {
    "bookieHost": "the bookie's id",
    "journalDir": "journal directories as configured",
    "ledgerDirs": "how many, then each behind a tab",
    "instanceId": "the cluster",
    "indexDirs": "how many, then each behind a tab; only if configured",
}
_IDS_SIZE = 16
_READ_SIZE = 1024 * 1024
_SHOWN_PAYLOAD_BYTES = 256
_NOT_ZERO = re.compile(rb"[^\0]")


def format_spans(spans: Iterable[Span]) -> str:
    """One line per span: offset, size, name, value, meaning."""
    return "\n".join(
        f"{span.offset:6} {span.size:5}  {span.name:<20} {_short(span.value):<28} {span.meaning}"
        for span in spans
    )


# Journal


def journal_spans(disk: Disk, file_id: int, digest_size: int = 4) -> Iterator[Span]:
    """Name the bytes of a journal of any version.

    `digest_size` tells digest and payload apart, which only the ledger's clients can (4: CRC32C).
    Raises what `JournalScan` raises.
    """
    scan = JournalScan(disk, file_id)
    file = disk.open(f"current/{LogMark(file_id, 0).file_name}")
    end = header_size(scan.version)
    if file.size() < end:
        raise StorageDamagedException(f"{scan.name}, offset {file.size()}: the header ends here")
    head = file.read(0, end).ljust(JOURNAL_HEADER.size, b"\0")
    yield from (span for span in JOURNAL_HEADER.spans(head) if span.offset < end)
    for record in scan.records():
        yield from _padding_spans(file, end, record.offset)
        yield from _record_spans(record, digest_size)
        end = record.offset + LENGTH_SIZE + len(record.body)
    yield from _padding_spans(file, end, scan.end_offset)
    yield from _tail_span(file, scan.end_offset)
    file.close()


def _record_spans(record: JournalRecord, digest_size: int) -> Iterator[Span]:
    offset, _, entry_id, body = record
    data = RECORD_BODY.struct.pack(len(body)) + body
    if entry_id >= 0:
        yield from framed_spans(RECORD_HEADER, data, offset, digest_size)
        return
    yield from _placed(RECORD_HEADER, data, 0, offset)
    rest = RECORD_HEADER.size
    if entry_id in _SPECIAL and len(data) >= rest + RECORD_BODY.size:
        yield from _placed(RECORD_BODY, data, rest, offset)
        rest += RECORD_BODY.size
        name, meaning = _SPECIAL[entry_id]
        yield Span(name, offset + rest, len(data) - rest, data[rest:].hex(), meaning)
    elif len(data) > rest:
        yield Span("rest", offset + rest, len(data) - rest, data[rest:].hex(), "has no meaning")


def _padding_spans(file: File, start: int, end: int) -> Iterator[Span]:
    while start < end:
        data = file.read(start, PADDING_HEADER.size)
        yield from _placed(PADDING_HEADER, data, 0, start)
        zero_count: int = PADDING_HEADER.struct.unpack(data)[1]
        start += PADDING_HEADER.size
        meaning = "so that the next write begins a block"
        yield Span("zeros", start, zero_count, "zeros", meaning)
        start += zero_count


def _tail_span(file: File, start: int) -> Iterator[Span]:
    size = file.size() - start
    if size and first_nonzero(file, start) is None:
        yield Span("preallocated", start, size, "zeros", "where the next records would go")
    elif size:
        yield Span("rest", start, size, file.read(start, 16).hex(), "replay stops before this")


# Entry log


class LogFrame(NamedTuple):
    """A run of bytes in an entry log; `kind` is "entry", "ledgers map" or one of `_NO_ENTRY`."""

    kind: str
    offset: int
    size: int


def log_frames(file: File, start: int) -> Iterator[LogFrame]:
    """What lies in an entry log from `start` to its end, by the rules of `scan_entry_log`."""
    at = filler = start
    end = file.size()
    while len(head := file.read(at, LOG_ENTRY_HEADER.size)) == LOG_ENTRY_HEADER.size:
        length, ledger_id, _ = LOG_ENTRY_HEADER.struct.unpack(head)
        if length <= 0:
            at += 1 if length else zeros_at(file, at)
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
    """Name the bytes of an entry log, its ledgers map included."""
    file = disk.open(f"current/{log_name(log_id)}")
    if file.size() == 0:
        yield Span("nothing", 0, 0, "", "created ahead; its header comes with its first entry")
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
    file.close()


def _map_spans(data: bytes, offset: int) -> Iterator[Span]:
    yield from _placed(LEDGERS_MAP_HEADER, data, 0, offset)
    at = LEDGERS_MAP_HEADER.size
    while at + LEDGERS_MAP_ITEM.size <= len(data):
        yield from _placed(LEDGERS_MAP_ITEM, data, at, offset)
        at += LEDGERS_MAP_ITEM.size


# Index


def index_spans(disk: Disk, ledger_id: int) -> Iterator[Span]:
    """Name the bytes of a ledger's index; slots without a location are one span a run.

    Raises `StorageDamagedException` when the header is cut, or its lengths lead out of it.
    """
    path = index_path(ledger_id)
    file = disk.open(path)
    data = _head(file, INDEX_HEADER, path) + file.read(INDEX_HEADER.size, DATA_OFFSET)
    data = data[:DATA_OFFSET]
    if len(data) < DATA_OFFSET:
        raise StorageDamagedException(f"{path}, offset {len(data)}: the header ends here")
    yield from INDEX_HEADER.spans(data)
    _, version, key_size = INDEX_HEADER.struct.unpack_from(data)
    at = INDEX_HEADER.size + max(key_size, 0)
    if key_size < 0 or at + INDEX_STATE.size > len(data):
        raise StorageDamagedException(f"{path}, offset 8: a master key of {key_size} bytes")
    key = data[INDEX_HEADER.size : at]
    yield Span("master key", INDEX_HEADER.size, key_size, key.hex(), "what an add must come with")
    yield from _placed(INDEX_STATE, data, at, 0)
    lac_size: int = INDEX_STATE.struct.unpack_from(data, at)[1] if version else 0
    at += INDEX_STATE.size
    if not 0 <= lac_size <= len(data) - at:
        raise StorageDamagedException(f"{path}, offset {at - 4}: explicit LAC of {lac_size} bytes")
    if lac_size:
        lac = data[at : at + lac_size]
        yield Span("explicit LAC", at, lac_size, lac.hex(), _SPECIAL[EXPLICIT_LAC][1])
        at += lac_size
    yield Span("padding", at, len(data) - at, "zeros", "up to the first slot")
    for first, count, location in index_slots(file):
        yield _slot_span(first, count, location)
    file.close()


def index_slots(file: File) -> Iterator[tuple[int, int, int]]:
    """(first entry id, how many, location) of an index's slots: those without a location (0) run
    by run, the others one by one.

    What was never written is passed over, as the bookie does: a client may add any entry, and the
    index of entry 2**40 - 1 alone has a hole of 8 TiB.
    """
    size = INDEX_SLOT.size
    # A location that the file ends in the middle of was never synced.
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


# The small files


def last_mark_spans(file: File) -> Iterator[Span]:
    """Name the 16 bytes of a LastLogMark."""
    yield from LAST_MARK.spans(_head(file, LAST_MARK, "lastMark"))
    yield from _excess(file, LAST_MARK.size)


def last_id_spans(file: File) -> Iterator[Span]:
    """Name the bytes of `lastId`."""
    text = file.read(0, _READ_SIZE)
    digits = text.rstrip(b"\n")
    yield Span("log id", 0, len(digits), ascii(digits)[2:-1], "the last one taken, in hexadecimal")
    if len(text) > len(digits):
        yield Span("newline", len(digits), len(text) - len(digits), "", "")


def cookie_spans(file: File) -> Iterator[Span]:
    """Name the lines of a cookie (`VERSION`)."""
    offset = 0
    for line in file.read(0, _READ_SIZE).splitlines(keepends=True):
        name, colon, value = line.decode(errors="replace").strip().partition(": ")
        if colon:
            yield Span(name, offset, len(line), value, _COOKIE_FIELDS.get(name, "unknown"))
        else:
            yield Span("layout version", offset, len(line), name, "5, or 4: read the same")
        offset += len(line)


# What they share


def first_nonzero(file: File, start: int) -> int | None:
    """Where the first byte from `start` on lies that is not zero; None if there is none."""
    at, end = start, file.size()
    while (at := file.next_data(at)) < end:
        chunk = file.read(at, min(_READ_SIZE, end - at))
        rest = chunk.lstrip(b"\0")
        if rest:
            return at + len(chunk) - len(rest)
        at += len(chunk)
    return None


def framed_spans(layout: Layout, data: bytes, offset: int, digest_size: int) -> tuple[Span, ...]:
    """Name the bytes of an entry behind its length word, as journal and entry log keep it.

    `layout` has that word first; `data` begins at `offset` of the file.
    """
    length = next(_placed(layout, data, 0, offset))
    return length, *entry_spans(data[LENGTH_SIZE:], offset + LENGTH_SIZE, digest_size)


def entry_spans(entry: bytes, offset: int, digest_size: int) -> tuple[Span, ...]:
    """Name an entry's bytes, at least the 16 of its ids; its first byte is at `offset`.

    `digest_size` tells digest and payload apart, which only the ledger's clients can (4: CRC32C).
    """
    digest, payload = ENTRY_HEADER.size, ENTRY_HEADER.size + digest_size
    header = tuple(_placed(ENTRY_HEADER, entry.ljust(digest, b"\0"), 0, offset))
    if len(entry) < payload:
        rest = entry[_IDS_SIZE:]
        short = Span("rest", offset + _IDS_SIZE, len(rest), rest.hex(), "too short for an entry")
        return *header[:2], short
    shown = ascii(entry[payload : payload + _SHOWN_PAYLOAD_BYTES])[1:]
    last = Span("payload", offset + payload, len(entry) - payload, shown, "what the client gave")
    if digest_size == 0:
        return *header, last
    value = entry[digest:payload].hex()
    return (
        *header,
        Span("digest", offset + digest, digest_size, value, "of header and payload"),
        last,
    )


def _placed(layout: Layout, data: bytes, at: int, base: int) -> Iterator[Span]:
    """The layout's spans at `at` in `data`, which begins at `base` of the file."""
    return (replace(span, offset=base + span.offset) for span in layout.spans(data, at))


def _head(file: File, layout: Layout, name: str) -> bytes:
    data = file.read(0, layout.size)
    if len(data) < layout.size:
        raise StorageDamagedException(f"{name}, offset {len(data)}: the {layout.name} ends here")
    return data


def _excess(file: File, size: int) -> Iterator[Span]:
    if file.size() > size:
        data = file.read(size, 16)
        yield Span("rest", size, file.size() - size, data.hex(), "does not belong here")


def _short(value: str) -> str:
    return value if len(value) <= 28 else value[:25] + "..."
