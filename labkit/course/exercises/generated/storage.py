"""Generated test cases for a single bookie: entries, journals, indexes, entry logs, garbage."""

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
from labkit.system.storage.journal import JOURNAL_HEADER, MAGIC, VERSION, padding

DIGESTS = tuple(make_digest(digest_type, b"pw") for digest_type in DigestType)
COVERING = tuple(digest for digest in DIGESTS if digest.size)
BLOCK = 512
MAX_OFFSET = 2**31 - 1
"""The largest offset in a journal or an entry log: offsets have 31 bits."""


def entry(draw: Draw) -> tuple[Entry, Digest]:
    """An entry with ids of more than 32 bits and a payload that is not valid text."""
    digest, ledger_id, entry_id = draw.one_of(DIGESTS), draw.id(), draw.id()
    confirmed = draw.number(NO_ENTRY_ID, min(entry_id - 1, 3)) if entry_id else NO_ENTRY_ID
    if draw.chance(40):
        confirmed = entry_id - 1
    payload = draw.data(12)
    return Entry(ledger_id, entry_id, confirmed, len(payload) + draw.id(), payload), digest


def payload_sizes(draw: Draw) -> tuple[list[int]]:
    """The payload sizes of the entries of a ledger. Some payloads are empty, and some are huge."""
    return ([draw.one_of((0, 1, 7, 300, 2**20, 2**31)) for _ in range(draw.number(1, 12))],)


def bytes_of_an_entry(draw: Draw) -> tuple[bytes, Digest]:
    """An entry that is either unchanged or has flipped bits, missing bytes or extra bytes.

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
    """A journal of records and padding that is truncated near its end, and the offset at which to
    start reading.
    """
    data, starts = bytearray(JOURNAL_HEADER.struct.pack(MAGIC, VERSION)), [BLOCK]
    for _ in range(draw.number(0, 8)):
        body = struct.pack(">qq", draw.id(), draw.number(-1, 12)) + draw.data(6)
        body += bytes(draw.one_of((0, 20, 100, 440, 470, 600)))
        starts.append(len(data))
        data += struct.pack(">i", len(body)) + body
        if draw.number(0, 1):
            data += padding(len(data), BLOCK)
    data += bytes(draw.one_of((0, 3, 4, 12)))
    cut = draw.one_of((0, 1, 2, 3, 4, 5, 8, 9, 20, 300))
    data = data[: max(BLOCK, len(data) - cut)]
    return bytes(data), draw.one_of([start for start in starts if start <= len(data)])


def journals(draw: Draw) -> tuple[list[int], int, int]:
    """The ids of journals (with gaps, because BookKeeper derives them from the time), the id of the
    journal that the mark points to, and the number of backups.
    """
    ids = draw.ids(7, least=1)
    mark = draw.one_of([*ids, max(ids, default=0) + draw.number(1, 3)])
    return ids, mark, draw.number(0, 6)


def log_and_offset(draw: Draw) -> tuple[int, int]:
    log_id = draw.one_of((0, 1, 9, 10, 255, 256, 2**16, 2**31 - 1))
    return log_id, draw.one_of((1028, 1024 + 4, 2**16, 2**20 + 4, 2**30, MAX_OFFSET))


def used_logs(draw: Draw) -> tuple[list[EntryLogMetadata], float]:
    """Entry logs of different sizes, each with entries of several ledgers, and a threshold. The ids
    of the logs have gaps.
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
    """The ledgers that a bookie stores, the ones among them that have been deleted, and the ledgers
    that a client creates between two queries.
    """
    stored = draw.ids(6)
    deleted = draw.some(stored)
    created = [each for each in draw.ids(2) if each not in stored]
    return draw.shuffled(stored), deleted, created
