"""Generates test cases about a single bookie: entries, journals, indexes, entry logs and
garbage.
"""

import struct

from labkit.course.checking.generated_cases import Draw
from labkit.system.model.entry import (
    ENTRY_HEADER,
    NO_ENTRY_ID,
    Digest,
    DigestType,
    Entry,
    encode_entry,
    make_digest,
)
from labkit.system.storage.garbage import EntryLogMetadata
from labkit.system.storage.journal import (
    JOURNAL_HEADER,
    MAGIC,
    PADDING_HEADER,
    PADDING_MASK,
    VERSION,
    padding,
)

DIGESTS = tuple(make_digest(digest_type, b"pw") for digest_type in DigestType)
COVERING = tuple(digest for digest in DIGESTS if digest.size)
BLOCK = 512
_LENGTH = struct.Struct(">i")
MAX_OFFSET = 2**31 - 1
"""The largest offset in a journal or an entry log: offsets have 31 bits."""


def entry(draw: Draw) -> tuple[Entry, Digest]:
    """Return an entry with ids of more than 32 bits and a payload that is not valid text."""
    digest, ledger_id, entry_id = draw.one_of(DIGESTS), draw.id(), draw.id()
    confirmed = draw.number(NO_ENTRY_ID, min(entry_id - 1, 3)) if entry_id else NO_ENTRY_ID
    if draw.chance(40):
        confirmed = entry_id - 1
    payload = draw.data(12)
    return Entry(ledger_id, entry_id, confirmed, len(payload) + draw.id(), payload), digest


def payload_sizes(draw: Draw) -> tuple[list[int]]:
    """Return the payload sizes of a ledger's entries. Some payloads are empty, and some are
    huge.
    """
    return ([draw.one_of((0, 1, 7, 300, 2**20, 2**31)) for _ in range(draw.number(1, 12))],)


def bytes_of_an_entry(draw: Draw) -> tuple[bytes, Digest]:
    """Return an entry that is either unchanged or has flipped bits, missing bytes or extra bytes.

    Without a digest, a reader can only detect that the header is truncated.
    """
    if draw.chance(10):
        return bytes(draw.number(0, ENTRY_HEADER.size + 4)), make_digest(DigestType.DUMMY, b"pw")
    digest = draw.one_of(COVERING)
    payload = draw.data(120)
    ids = draw.id(), draw.id()
    data = bytearray(encode_entry(Entry(*ids, NO_ENTRY_ID, len(payload), payload), digest))
    match draw.number(0, 4):
        case 1:
            data[draw.number(0, len(data) - 1)] ^= 1 << draw.number(0, 7)
        case 2:
            data = data[: draw.number(0, len(data) - 1)]
        case 3:
            data += bytes([draw.one_of((0, 1, 0xFF))])
        case 4:
            at = 32 + draw.number(0, digest.size - 1)
            data[at] ^= 1 << draw.number(0, 7)
    return bytes(data), digest


def journal(draw: Draw) -> tuple[bytes, int]:
    """Return a journal file and the offset of its first record."""
    return JOURNAL_HEADER.struct.pack(MAGIC, VERSION) + _records(draw, BLOCK), BLOCK


def journal_and_start(draw: Draw) -> tuple[bytes, int]:
    """Return a journal file and the offset at which to start reading it. Before this offset, there
    may be bytes that would make a reader of the whole file continue at another offset, or stop.
    """
    before = JOURNAL_HEADER.struct.pack(MAGIC, VERSION)
    match draw.number(0, 3):
        case 0:
            for _ in range(draw.number(0, 4)):
                before += _record(draw, len(before))
        case 1:
            before += bytes(BLOCK)
        case 2:
            before += _LENGTH.pack(BLOCK + draw.number(0, 100)).ljust(BLOCK, b"\1")
        case 3:
            zero_count = BLOCK + draw.number(0, 100)
            before += PADDING_HEADER.struct.pack(PADDING_MASK, zero_count).ljust(BLOCK, b"\0")
    return before + _records(draw, len(before)), len(before)


def _records(draw: Draw, offset: int) -> bytes:
    """Return records that start at this offset, followed by anything left over from a crash or an
    older file.

    Some records are equal, and some are followed by padding.
    """
    pieces, records, end = list[bytes](), list[bytes](), offset
    for _ in range(draw.number(0, 8)):
        is_equal = bool(records) and draw.chance(15)
        records.append(draw.one_of(records) if is_equal else _record(draw, end))
        pieces.append(records[-1])
        if draw.number(0, 1):
            pieces.append(padding(end + len(records[-1]), BLOCK))
        end = offset + sum(map(len, pieces))
    old = _LENGTH.pack(16) + struct.pack(">qq", draw.id(), draw.id())
    match draw.number(0, 2):
        case 1 if pieces:  # a torn record, or torn padding
            torn = pieces.pop()
            pieces.append(torn[: draw.one_of((0, 3, 4, 7, 8, 11, len(torn) // 2, len(torn) - 1))])
        case 2:  # a length of 0
            pieces.append(draw.one_of((bytes(3), bytes(4), bytes(12), bytes(4) + old)))
        case _ if draw.chance(20):  # a record of an older file, at the start of the next block
            pieces.append(draw.one_of((_LENGTH.pack(2 * BLOCK), bytes(4))))
            pieces.append(bytes(-(end + len(pieces[-1])) % BLOCK) + old)
    return b"".join(pieces)


def _record(draw: Draw, offset: int) -> bytes:
    body = struct.pack(">qq", draw.id(), draw.number(-1, 12)) + draw.data(6)
    if draw.chance(15):  # leave room only for padding without zeros
        body += bytes(-(offset + _LENGTH.size + len(body) + PADDING_HEADER.size) % BLOCK)
    else:
        body += bytes(draw.one_of((0, 20, 100, 440, 470, 600)))
    return _LENGTH.pack(len(body)) + body


def journals(draw: Draw) -> tuple[list[int], int, int]:
    """Return the ids of journals (with gaps, because BookKeeper derives these ids from the time),
    the id of the journal that the mark points to, and the number of backups.
    """
    ids = draw.ids(7, least=1)
    mark = draw.one_of([*ids, max(ids, default=0) + draw.number(1, 3)])
    return ids, mark, draw.number(0, 6)


def log_and_offset(draw: Draw) -> tuple[int, int]:
    log_id = draw.one_of((0, 1, 9, 10, 255, 256, 2**16, 2**31 - 1))
    return log_id, draw.one_of((1028, 1024 + 4, 2**16, 2**20 + 4, 2**30, MAX_OFFSET))


def used_logs(draw: Draw) -> tuple[list[EntryLogMetadata], float]:
    """Return several entry logs and a threshold. The logs differ in size, contain entries of
    several ledgers, and have ids with gaps.
    """
    logs = []
    for log_id in draw.shuffled(draw.ids(6)):
        total = draw.one_of((100, 10, 1000, 4096, 2**31))
        parts = [draw.one_of((0, 5, 15, 20, 35, 50, 80, 95, 100)) for _ in range(2)]
        left, living = total, {}
        for ledger_id, percent in zip((5, 8), parts, strict=True):
            size = min(left, total * percent // 100)
            left -= size
            if size:
                living[ledger_id] = size
        logs.append(EntryLogMetadata(log_id, total, living))
    return logs, draw.one_of((0.2, 0.5, 0.8, 1.0))


def changing_ledgers(draw: Draw) -> tuple[list[int], list[int], list[int]]:
    """Return the ledgers that a bookie stores, which of them have been deleted, and the ledgers
    that a client creates between two queries.
    """
    stored = draw.ids(6)
    deleted = draw.some(stored)
    created = [each for each in draw.ids(2) if each not in stored]
    return draw.shuffled(stored), deleted, created
