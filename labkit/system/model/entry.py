"""An entry: the unit that is written, replicated, stored and read.

A client packs a payload once. The same bytes are sent over the wire, and stored in the journal and
the entry log of each bookie in the write set. The digest covers the header and the payload. The
client that writes the entry computes the digest, clients that read the entry check the digest, and
bookies ignore it.

In BookKeeper: `proto/checksum/DigestManager.java`.
"""

import hashlib
import hmac
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from labkit.system.model import crc32c
from labkit.system.model.errors import BKDigestMatchException
from labkit.system.model.layout import Field, Layout

ENTRY_HEADER = Layout(
    "entry header",
    Field("ledger id", "q", "the ledger that the entry belongs to"),
    Field("entry id", "q", "position in the ledger, starting at 0"),
    Field("last add confirmed", "q", "LAC when the writer packed the entry; -1: none yet"),
    Field("length", "q", "payload bytes in the ledger, including this entry"),
)
"""The header is followed by the digest, whose size depends on its type, and by the payload."""
_HEADER_SIZE = ENTRY_HEADER.size

LAC_HEADER = Layout(
    "explicit LAC",
    Field("ledger id", "q", "the ledger"),
    Field("last add confirmed", "q", "the newest confirmed entry"),
)
"""The header is followed by a digest of these 16 bytes."""

NO_ENTRY_ID = -1
"""As a LastAddConfirmed, this id means that no entry has been confirmed yet. In a read request, it
stands for the bookie's last entry of the ledger.
"""


MAX_ENTRY_ID = 2**40 - 1
"""The index stores the location of this entry at offset 8 TiB, a file size that file systems allow.
"""


class DigestType(IntEnum):
    """Types of digests. The values are the ones used in ledger metadata (`DataFormats.proto`)."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest algorithm. `compute` returns `size` bytes for a header and a payload."""

    type: DigestType
    size: int
    compute: Callable[[bytes, bytes], bytes]


def make_digest(digest_type: DigestType, password: bytes) -> Digest:
    """Return a digest of this type. Only HMAC uses the password."""
    if digest_type is DigestType.CRC32C:
        return Digest(digest_type, 4, _crc32c)
    if digest_type is DigestType.CRC32:
        return Digest(digest_type, 8, _crc32)
    if digest_type is DigestType.DUMMY:
        return Digest(digest_type, 0, lambda header, payload: b"")
    # This key differs from the master key, because bookies receive the master key, but must not
    # be able to compute digests.
    key = hashlib.sha1(b"mac" + password).digest()
    return Digest(
        digest_type, 20, lambda header, payload: hmac.digest(key, header + payload, "sha1")
    )


def _crc32c(header: bytes, payload: bytes) -> bytes:
    return crc32c.extend(crc32c.value(header), payload).to_bytes(4, "big")


def _crc32(header: bytes, payload: bytes) -> bytes:
    return zlib.crc32(payload, zlib.crc32(header)).to_bytes(8, "big")


def make_master_key(password: bytes) -> bytes:
    """Return the 20 bytes that prove to a bookie that a client knows the ledger's password."""
    return hashlib.sha1(b"ledger" + password).digest()


@dataclass(frozen=True, slots=True)
class Entry:
    """An unpacked entry.

    `length` is the total payload size of the ledger up to and including this entry.
    """

    ledger_id: int
    entry_id: int
    last_add_confirmed: int
    length: int
    payload: bytes


def encode_entry(entry: Entry, digest: Digest) -> bytes:
    ids = entry.ledger_id, entry.entry_id, entry.last_add_confirmed
    return pack_entry(*ids, entry.length, entry.payload, digest)


def pack_entry(
    ledger_id: int,
    entry_id: int,
    last_add_confirmed: int,
    length: int,
    payload: bytes,
    digest: Digest,
) -> bytes:
    """Like `encode_entry`, but does not create an `Entry`, for speed: a writer calls this function
    for every entry.
    """
    header = ENTRY_HEADER.struct.pack(ledger_id, entry_id, last_add_confirmed, length)
    return header + digest.compute(header, payload) + payload


def decode_entry(
    data: bytes,
    digest: Digest,
    ledger_id: int,
    entry_id: int,
    start: int = 0,
    end: int | None = None,
) -> Entry:
    """Check and decode the entry in `data[start:end]`.

    If `entry_id` is `NO_ENTRY_ID`, any entry of the ledger is accepted. Raises
    `BKDigestMatchException` if the digest or the ids do not match.
    """
    digest_at = start + _HEADER_SIZE
    payload_at = digest_at + digest.size
    payload = data[payload_at:end]
    if (
        payload_at > (len(data) if end is None else end)
        or digest.compute(data[start:digest_at], payload) != data[digest_at:payload_at]
    ):
        raise BKDigestMatchException(
            f"entry {entry_id} of ledger {ledger_id}: the {digest.type.name} digest does not match;"
            " the bytes are damaged, or the ledger was opened with another password or digest type"
        )
    found_ledger, found_entry, last_confirmed, length = ENTRY_HEADER.struct.unpack_from(data, start)
    if found_ledger != ledger_id or found_entry != entry_id != NO_ENTRY_ID:
        raise BKDigestMatchException(
            f"asked for entry {entry_id} of ledger {ledger_id},"
            f" got entry {found_entry} of ledger {found_ledger}"
        )
    return Entry(found_ledger, found_entry, last_confirmed, length, payload)


def encode_explicit_lac(ledger_id: int, last_add_confirmed: int, digest: Digest) -> bytes:
    header = LAC_HEADER.struct.pack(ledger_id, last_add_confirmed)
    return header + digest.compute(header, b"")


def decode_explicit_lac(body: bytes, digest: Digest, ledger_id: int) -> int:
    """Check and decode an explicit LAC. Raises `BKDigestMatchException` if the digest or the ledger
    id does not match.
    """
    header, found = body[: LAC_HEADER.size], body[LAC_HEADER.size :]
    if len(header) < LAC_HEADER.size or found != digest.compute(header, b""):
        raise BKDigestMatchException(
            f"explicit LAC of ledger {ledger_id}: the {digest.type.name} digest does not match"
        )
    found_ledger, last_add_confirmed = LAC_HEADER.struct.unpack(header)
    if found_ledger != ledger_id:
        raise BKDigestMatchException(
            f"asked for the explicit LAC of ledger {ledger_id}, got that of {found_ledger}"
        )
    confirmed: int = last_add_confirmed
    return confirmed
