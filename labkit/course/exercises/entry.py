"""The exercises of lesson 01: packing an entry, its length field, and a reader's check of the
digest.

A bookie looks only at the first two fields of an entry, so it stores, syncs and acknowledges an
entry even if the other bytes are wrong. The trials show who notices the damage, and when.
"""

from collections.abc import Callable
from itertools import accumulate
from unittest.mock import patch

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.exercise import exercise
from labkit.course.checking.refused import Refused
from labkit.course.exercises.generated import storage as generated
from labkit.course.runs.trial import must_survive
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
from labkit.views.widgets.xray import XRay
from labkit.views.xray.byte_region import Piece
from labkit.views.xray.file_spans import entry_spans
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


@exercise(
    "entry.pack",
    hints=(
        "Header, digest, payload, in this order. The header consists of four signed 64-bit"
        " integers.",
        'struct.pack(">qqqq", ...) packs four integers, the most significant byte first. Their'
        " order is the one in the picture.",
        "digest.compute(header, payload) returns the digest's bytes. For the type DUMMY it returns"
        " no bytes.",
    ),
    like=encode_entry,
    cases=Cases(
        generated.entry,
        encode_entry,
        lambda case, packed: _field_rule(packed, *case),
        picture=lambda case, packed: _picture("what you packed", packed, case[1]),
        run_first=True,
    ),
)
def pack(learner: Pack) -> str:
    """With every digest type, a reader reads every field as the client packed it."""
    with patch.object(script, "encode_entry", learner):
        crashes = must_survive(
            "After every crash, the bookie must find each entry by its ids.",
            [Add(5, 0), Add(5, 1), Commit(), Checkpoint(), Add(6, 0), Commit()],
        )
    return (
        f"A bookie kept your entries in {len(crashes.variants)} kinds of crashes at each of"
        f" {len(crashes.points)} moments."
    )


def _field_rule(packed: bytes, entry: Entry, digest: Digest) -> str:
    """Describe the first wrong field or, if the entry has the wrong size, both the actual and the
    correct size.
    """
    right = encode_entry(entry, digest)
    if len(packed) != len(right):
        return (
            f"With digest type {digest.type.name}, an entry with a payload of"
            f" {len(entry.payload)} bytes has {ENTRY_HEADER.size} + {digest.size} +"
            f" {len(entry.payload)} bytes; yours has {len(packed)}."
        )
    for ours, yours in zip(
        entry_spans(right, 0, digest.size), entry_spans(packed, 0, digest.size), strict=True
    ):
        at = slice(ours.offset, ours.offset + ours.size)
        if right[at] != packed[at]:
            first = next(n for n in range(ours.offset, at.stop) if right[n] != packed[n])
            return (
                f"The first difference is at byte {first}. Bytes {ours.offset} to {at.stop - 1} are"
                f" the {ours.name} ({ours.meaning}): expected {ours.value}, got {yours.value}"
                f" ({digest.type.name})."
            )
    raise AssertionError("every byte belongs to a field")


def _picture(title: str, packed: bytes, digest: Digest) -> XRay | None:
    if len(packed) < ENTRY_HEADER.size + digest.size:
        return None
    spans = entry_spans(packed, 0, digest.size)
    return XRay(Piece(title, "", 0, packed, spans, len(packed)))


def lengths_of(payload_sizes: list[int]) -> list[int]:
    """Return the value of each entry's length field in a ledger, given the payload sizes in
    bytes.
    """
    return list(accumulate(payload_sizes))


@exercise(
    "entry.length",
    hints=(
        "Imagine that the writer dies after one of its adds. What must the last surviving entry say"
        " about the ledger?",
        "The length is a sum of payload sizes: of all earlier entries and of the entry itself.",
        "Only payloads count, not headers or digests. Keep a running total.",
    ),
    like=lengths_of,
    cases=Cases(
        generated.payload_sizes,
        lengths_of,
        "The length field is the number of payload bytes in the ledger up to and including the"
        " entry.",
    ),
)
def length(learner: Lengths) -> str:
    """The last entry that survives contains the length of the ledger, whichever entry that is."""
    runs = [[5], [5, 0], [5, 7], [0, 3, 3], [700, 1, 40, 0, 12]]
    for sizes in runs:
        lengths = learner(list(sizes))
        if len(lengths) != len(sizes):
            raise Refused(
                f"Return one length per entry: expected {len(sizes)} lengths for {sizes}, got"
                f" {len(lengths)}."
            )
        for count in range(1, len(sizes) + 1):
            _check_last_entry(sizes, lengths, count)
    return (
        f"After each of {sum(map(len, runs))} crashes, the last entry that replay found contained"
        " the ledger's length."
    )


def _check_last_entry(all_sizes: list[int], all_lengths: list[int], count: int) -> None:
    """Add `count` entries, crash and restart the bookie, and then read the last entry as recovery
    does.
    """
    sizes, lengths = all_sizes[:count], all_lengths[:count]
    disks = SimDisk(name="journal"), SimDisk(name="ledgers")
    store = _open(*disks)
    if not all(0 <= length < 2**63 for length in lengths):
        raise Refused(f"A length must be between 0 and 2**63 - 1; yours are {lengths}.")
    for entry_id, (size, ledger_length) in enumerate(zip(sizes, lengths, strict=True)):
        entry = Entry(5, entry_id, entry_id - 1, ledger_length, bytes(size))
        store.add_entry(5, entry_id, encode_entry(entry, DIGEST), MASTER_KEY)
    store.commit()
    store = _open(*(disk.after_crash(lost) for disk in disks))
    last = decode_entry(store.read_entry(5, NO_ENTRY_ID), DIGEST, 5, NO_ENTRY_ID)
    if last.length != sum(sizes):
        died = "" if sizes == all_sizes else f"The writer died after {count} of {all_sizes}. "
        raise Refused(
            f"{died}With payloads of {sizes} bytes, the ledger's length is {sum(sizes)}; its last"
            f" entry says {last.length}."
        )


def is_intact(data: bytes, digest: Digest) -> bool:
    """Return whether an entry consists of exactly the bytes that its writer packed."""
    header, rest = data[: ENTRY_HEADER.size], data[ENTRY_HEADER.size :]
    payload = rest[digest.size :]
    if len(data) < ENTRY_HEADER.size + digest.size:
        return False
    return rest[: digest.size] == digest.compute(header, payload)


def _is_intact_rule_of(case: Arguments, _: bool) -> str:
    data, digest = case
    if len(data) < ENTRY_HEADER.size + digest.size:
        return "An entry that is shorter than its header and digest is not intact."
    return "An entry is intact if and only if its digest matches its header and payload."


@exercise(
    "entry.intact",
    hints=(
        "An entry has three parts: 32 bytes of header, digest.size bytes of digest, and the"
        " payload.",
        "The digest covers the header and the payload. Recompute it and compare.",
        "The digest.size bytes from byte 32 on must equal `digest.compute(header, payload)`. An"
        " entry that is shorter than header and digest is not intact, even if the digest is empty.",
    ),
    like=is_intact,
    cases=Cases(generated.bytes_of_an_entry, is_intact, _is_intact_rule_of),
)
def intact(learner: IsIntact) -> str:
    """A reader detects every changed byte."""
    tried = 0
    for digest in DIGESTS:
        entry = encode_entry(FIRST, digest)
        if not learner(entry, digest):
            raise Refused(f"An unchanged entry is intact ({digest.type.name}).")
        if digest.size:
            tried += _damage_on_disk(learner, entry, digest)
        _must_refuse_cuts(learner, entry, digest)
    return f"You detected all {tried} changed bytes in the entry log and every truncated entry."


def _damage_on_disk(learner: IsIntact, entry: bytes, digest: Digest) -> int:
    """Change each byte of the entry in the entry log in turn, and read the entry from the store
    after each change. Return the number of bytes tried.
    """
    journal, ledgers = SimDisk(name="journal"), SimDisk(name="ledgers")
    store = _open(journal, ledgers)
    store.add_entry(5, 0, entry, MASTER_KEY)
    store.close()
    log = ledgers.open(f"current/{log_name(0)}")
    start = LOG_HEADER.size + 4
    # Skip the ids in bytes 0 to 15, because the store itself compares them.
    for at in range(16, len(entry)):
        log.write(start + at, bytes([entry[at] ^ 1]))
        read = _open(journal, ledgers).read_entry(5, 0)
        if learner(read, digest):
            name = next(
                s.name for s in entry_spans(entry, 0, digest.size) if s.offset + s.size > at
            )
            raise Refused(
                f"Byte {at}, in the {name}, was changed on disk, and the bookie returned the"
                f" damaged entry. Your function must return False for it ({digest.type.name}).",
                _picture("what the bookie returned", read, digest),
            )
        log.write(start + at, entry[at : at + 1])
    return len(entry) - 16


def _must_refuse_cuts(learner: IsIntact, entry: bytes, digest: Digest) -> None:
    """Raise `Refused` if the learner accepts a truncated entry. Without a digest, a reader can only
    detect that the header is truncated.
    """
    for size in range(len(entry) if digest.size else ENTRY_HEADER.size):
        if learner(entry[:size], digest):
            raise Refused(
                f"An entry that was truncated to {size} bytes is not intact ({digest.type.name})."
            )


def _open(journal: SimDisk, ledgers: SimDisk) -> LedgerStore:
    return script.Machine((journal,), (ledgers,)).open(LedgerStore, CONFIG)
