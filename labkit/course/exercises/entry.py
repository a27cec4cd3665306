"""Lesson 01: packing an entry, the length field, and the reader's check.

A bookie never looks into an entry beyond its first two fields, so wrong bytes are stored, synced
and acknowledged like right ones.  Who notices, and when, is what these trials show.
"""

from collections.abc import Callable
from itertools import accumulate
from unittest.mock import patch

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.exercise import Refused, exercise
from labkit.course.exercises.generated import storage as drawn
from labkit.course.runs.trial import must_survive
from labkit.system.model.byte_region import Piece
from labkit.system.model.entry import (
    ENTRY_HEADER,
    NO_ENTRY_ID,
    Digest,
    DigestType,
    Entry,
    decode_entry,
    encode_entry,
    make_digest,
)
from labkit.system.storage.entry_log import LOG_HEADER, log_name
from labkit.system.storage.store import LedgerStore
from labkit.system.storage.xray import entry_spans
from labkit.views.widgets.xray import XRay
from labkit.worlds.sim.machine.disk import SimDisk
from labkit.worlds.sim.machine.disk_operation import lost
from labkit.worlds.sim.settings import bookie_script as script
from labkit.worlds.sim.settings.bookie_script import (
    CONFIG,
    DIGEST,
    MASTER_KEY,
    PASSWORD,
    Add,
    Checkpoint,
    Commit,
)

Pack = Callable[[Entry, Digest], bytes]
Lengths = Callable[[list[int]], list[int]]
IsIntact = Callable[[bytes, Digest], bool]

DIGESTS = tuple(make_digest(digest_type, PASSWORD) for digest_type in DigestType)
FIRST = Entry(5, 0, NO_ENTRY_ID, 5, b"hello")


def _packed_picture(case: Arguments, packed: bytes) -> XRay | None:
    return _picture("what you packed", packed, case[1])


@exercise(
    "entry.pack",
    hints=(
        "Header, digest, payload, in this order. The header is four signed 64-bit integers.",
        'struct.pack(">qqqq", ...) packs four of them, the most significant byte first; their'
        " order is the one in the picture.",
        "digest.compute(header, payload) gives the digest's bytes; for the type DUMMY there are"
        " none.",
    ),
    like=encode_entry,
    cases=Cases(
        drawn.entry,
        encode_entry,
        lambda case, packed: _field_rule(packed, *case),
        picture=_packed_picture,
        first=True,
    ),
)
def pack(learner: Pack) -> str:
    """What the client packs is what its reader finds: every field, under every digest."""
    with patch.object(script, "encode_entry", learner):
        crashes = must_survive(
            "An entry must be found again under its ids after every crash.",
            [Add(5, 0), Add(5, 1), Commit(), Checkpoint(), Add(6, 0), Commit()],
        )
    return (
        f"A bookie kept your entries in {len(crashes.points)} crashes, each in"
        f" {len(crashes.variants)} ways."
    )


def _field_rule(packed: bytes, entry: Entry, digest: Digest) -> str:
    """What is wrong about the first wrong field, or about the size."""
    right = encode_entry(entry, digest)
    if len(packed) != len(right):
        return (
            f"A payload of {len(entry.payload)} bytes under {digest.type.name} makes an entry of"
            f" {ENTRY_HEADER.size} + {digest.size} + {len(entry.payload)} bytes; yours has"
            f" {len(packed)}."
        )
    for ours, yours in zip(
        entry_spans(right, 0, digest.size), entry_spans(packed, 0, digest.size), strict=True
    ):
        at = slice(ours.offset, ours.offset + ours.size)
        if right[at] != packed[at]:
            return (
                f"Bytes {ours.offset} to {ours.offset + ours.size - 1} are the {ours.name}"
                f" ({ours.meaning}): it must be {ours.value}, yours says {yours.value}"
                f" ({digest.type.name})."
            )
    raise AssertionError("bytes that differ are in some field")


def _picture(title: str, packed: bytes, digest: Digest) -> XRay | None:
    if len(packed) < ENTRY_HEADER.size + digest.size:
        return None
    spans = entry_spans(packed, 0, digest.size)
    return XRay(Piece(title, "", 0, packed, spans, len(packed)))


def lengths_of(payload_sizes: list[int]) -> list[int]:
    """The length field of each entry of a ledger, from its entries' payload sizes in bytes."""
    return list(accumulate(payload_sizes))


@exercise(
    "entry.length",
    hints=(
        "Imagine that the writer dies after any of its adds. What must the last remaining entry say"
        " about the ledger?",
        "It is the sum of payload sizes: of the entries before it, and of the entry itself.",
        "Payload only: neither headers nor digests count. Keep a running total.",
    ),
    like=lengths_of,
    cases=Cases(
        drawn.payload_sizes,
        lengths_of,
        "Each entry says how many payload bytes the ledger holds up to it, itself included.",
    ),
)
def length(learner: Lengths) -> str:
    """Whichever entry is the last one left, it says how long the ledger is."""
    runs = [[5], [5, 0], [5, 7], [0, 3, 3], [700, 1, 40, 0, 12]]
    for sizes in runs:
        lengths = learner(list(sizes))
        if len(lengths) != len(sizes):
            raise Refused(
                f"Each entry has its own length: {sizes} asks for {len(sizes)} of them, yours gives"
                f" {len(lengths)}."
            )
        for count in range(1, len(sizes) + 1):
            _ask_last_entry(sizes, lengths, count)
    return (
        f"In {sum(map(len, runs))} crashes the last entry that replay found had the ledger's"
        " length."
    )


def _ask_last_entry(all_sizes: list[int], all_lengths: list[int], count: int) -> None:
    """Add `count` entries, crash, start again, and read the last one as recovery does."""
    sizes, lengths = all_sizes[:count], all_lengths[:count]
    disks = SimDisk(name="journal"), SimDisk(name="ledgers")
    store = _open(*disks)
    if not all(0 <= length < 2**63 for length in lengths):
        raise Refused(f"A length is a signed 64-bit number from 0 on; yours are {lengths}.")
    for entry_id, (size, ledger_length) in enumerate(zip(sizes, lengths, strict=True)):
        entry = Entry(5, entry_id, entry_id - 1, ledger_length, bytes(size))
        store.add_entry(5, entry_id, encode_entry(entry, DIGEST), MASTER_KEY)
    store.commit()
    store = _open(*(disk.after_crash(lost) for disk in disks))
    last = decode_entry(store.read_entry(5, NO_ENTRY_ID), DIGEST, 5, NO_ENTRY_ID)
    if last.length != sum(sizes):
        died = "" if sizes == all_sizes else f"Of {all_sizes} only {count} came. "
        raise Refused(
            f"{died}After payloads of {sizes} bytes the ledger holds {sum(sizes)};"
            f" its last entry says {last.length}."
        )


def is_intact(data: bytes, digest: Digest) -> bool:
    """Whether an entry's bytes are as its writer packed them."""
    header, rest = data[: ENTRY_HEADER.size], data[ENTRY_HEADER.size :]
    payload = rest[digest.size :]
    return len(rest) >= digest.size and rest[: digest.size] == digest.compute(header, payload)


@exercise(
    "entry.intact",
    hints=(
        "Three parts: the first 32 bytes, then digest.size bytes of digest, then the payload.",
        "The digest covers header and payload, not itself. Compute it again and compare.",
        "`digest.compute(header, payload)` says what must stand in the digest.size bytes from byte"
        " 32 on. What is shorter than header and digest is not intact.",
    ),
    like=is_intact,
    cases=Cases(
        drawn.bytes_of_an_entry,
        is_intact,
        "An entry is intact exactly if its digest is that of its header and its payload.",
    ),
)
def intact(learner: IsIntact) -> str:
    """A reader finds every changed byte, wherever it lies."""
    tried = 0
    for digest in DIGESTS:
        entry = encode_entry(FIRST, digest)
        if not learner(entry, digest):
            raise Refused(f"An unchanged entry is intact ({digest.type.name}).")
        if digest.size:
            tried += _damage_on_disk(learner, entry, digest)
    return f"You found all of {tried} changed bytes in the entry log, and every cut."


def _damage_on_disk(learner: IsIntact, entry: bytes, digest: Digest) -> int:
    """Change each byte of the entry in the entry log, read it through the store."""
    journal, ledgers = SimDisk(name="journal"), SimDisk(name="ledgers")
    store = _open(journal, ledgers)
    store.add_entry(5, 0, entry, MASTER_KEY)
    store.close()
    log = ledgers.open(f"current/{log_name(0)}")
    start = LOG_HEADER.size + 4
    # The store itself compares the ids, bytes 0 to 15.
    for at in range(16, len(entry)):
        log.write(start + at, bytes([entry[at] ^ 1]))
        read = _open(journal, ledgers).read_entry(5, 0)
        if learner(read, digest):
            name = next(
                s.name for s in entry_spans(entry, 0, digest.size) if s.offset + s.size > at
            )
            raise Refused(
                f"Byte {at}, in the {name}, was changed on the disk, the bookie gave it out, and"
                f" your check called it intact ({digest.type.name}).",
                _picture("what the bookie gave out", read, digest),
            )
        log.write(start + at, entry[at : at + 1])
    for size in range(len(entry)):
        if learner(entry[:size], digest):
            raise Refused(f"An entry cut to {size} bytes is not intact ({digest.type.name}).")
    return len(entry) - 16


def _open(journal: SimDisk, ledgers: SimDisk) -> LedgerStore:
    return script.Machine((journal,), (ledgers,)).open(LedgerStore, CONFIG)
