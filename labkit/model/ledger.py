"""A ledger's metadata: who stores it, how many copies, and whether it may still grow.

Lives in one znode per ledger, changed only by compare-and-set.  labkit writes format version 3 (a
text line, then a length-delimited protobuf).

In BookKeeper: `client/LedgerMetadataImpl.java`, `meta/LedgerMetadataSerDe.java`.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise

from google.protobuf.message import DecodeError

from labkit.model.entry import NO_ENTRY_ID, DigestType
from labkit.model.errors import BKIncorrectParameterException, BKMetadataSerializationException
from labkit.model.proto.bookkeeper_pb2 import LedgerMetadataFormat

_VERSION_LINE = b"BookieMetadataFormatVersion\t"
_VERSION = 3


class LedgerState(IntEnum):
    """OPEN: one writer adds.  IN_RECOVERY: somebody looks for the end.  CLOSED: never changes."""

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


@dataclass(frozen=True, slots=True)
class Segment:
    """From `first_entry_id` on, entries are stored on these bookies (their order matters)."""

    first_entry_id: int
    ensemble: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """What the metadata store keeps of a ledger.

    Invariants: ensemble size E >= write quorum Qw >= ack quorum Qa >= 1; every ensemble has E
    bookies; segments ascend; `last_entry_id` and `length` mean something only when CLOSED.
    """

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    segments: tuple[Segment, ...]
    digest_type: DigestType = DigestType.CRC32C
    password: bytes = b""
    state: LedgerState = LedgerState.OPEN
    last_entry_id: int = NO_ENTRY_ID
    length: int = 0
    custom_metadata: tuple[tuple[str, bytes], ...] = ()
    c_token: int = 0

    def ensemble_at(self, entry_id: int) -> tuple[str, ...]:
        """The bookies of the segment that the entry belongs to."""
        return next(s.ensemble for s in reversed(self.segments) if s.first_entry_id <= entry_id)

    def closed(self, last_entry_id: int, length: int) -> "LedgerMetadata":
        """The same ledger, closed.  Drops the creation token, as every update does."""
        return replace(
            self,
            state=LedgerState.CLOSED,
            last_entry_id=last_entry_id,
            length=length,
            c_token=0,
        )


def check_quorums(ensemble_size: int, write_quorum: int, ack_quorum: int) -> None:
    """Raise `BKIncorrectParameterException` unless E >= Qw >= Qa >= 1."""
    if not ensemble_size >= write_quorum >= ack_quorum >= 1:
        raise BKIncorrectParameterException(
            f"ensemble size {ensemble_size}, write quorum {write_quorum}, ack quorum {ack_quorum}:"
            " allowed is ensemble size >= write quorum >= ack quorum >= 1"
        )


def encode_ledger_metadata(metadata: LedgerMetadata) -> bytes:
    """The znode's bytes, format version 3."""
    message = LedgerMetadataFormat(
        quorumSize=metadata.write_quorum,
        ensembleSize=metadata.ensemble_size,
        length=metadata.length,
        lastEntryId=metadata.last_entry_id,
        state=metadata.state.name,
        digestType=metadata.digest_type.name,
        password=metadata.password,
        ackQuorumSize=metadata.ack_quorum,
        cToken=metadata.c_token,
    )
    for segment in metadata.segments:
        message.segment.add(ensembleMember=segment.ensemble, firstEntryId=segment.first_entry_id)
    for key, value in metadata.custom_metadata:
        message.customMetadata.add(key=key, value=value)
    body = message.SerializeToString(deterministic=True)
    return _VERSION_LINE + b"%d\n" % _VERSION + _varint(len(body)) + body


def decode_ledger_metadata(data: bytes) -> LedgerMetadata:
    """The inverse.

    Raises `BKMetadataSerializationException` for anything but version 3, and for metadata that
    breaks the invariants of `LedgerMetadata`.
    """
    line, _, rest = data.partition(b"\n")
    if line != _VERSION_LINE + b"%d" % _VERSION:
        raise BKMetadataSerializationException(
            f"ledger metadata begins with {line[:40]!r}; only format version 3 is read"
        )
    size, size_bytes = _read_varint(rest)
    body = rest[size_bytes : size_bytes + size]
    if len(body) < size:
        raise BKMetadataSerializationException(
            f"ledger metadata is cut short: {len(body)} of {size} bytes are there"
        )
    try:
        metadata = _from_message(LedgerMetadataFormat.FromString(body))
    except (DecodeError, UnicodeDecodeError) as error:
        raise BKMetadataSerializationException(f"ledger metadata is damaged: {error}") from None
    _check_invariants(metadata)
    return metadata


def _from_message(message: LedgerMetadataFormat) -> LedgerMetadata:
    closed = message.state == LedgerMetadataFormat.CLOSED
    return LedgerMetadata(
        ensemble_size=message.ensembleSize,
        write_quorum=message.quorumSize,
        ack_quorum=message.ackQuorumSize or message.quorumSize,
        segments=tuple(Segment(s.firstEntryId, tuple(s.ensembleMember)) for s in message.segment),
        digest_type=DigestType(message.digestType),
        password=message.password,
        state=LedgerState(message.state),
        last_entry_id=message.lastEntryId if closed else NO_ENTRY_ID,
        length=message.length if closed else 0,
        custom_metadata=tuple((item.key, item.value) for item in message.customMetadata),
        c_token=message.cToken,
    )


def _check_invariants(metadata: LedgerMetadata) -> None:
    try:
        check_quorums(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)
    except BKIncorrectParameterException as error:
        raise BKMetadataSerializationException(f"ledger metadata is damaged: {error}") from None
    firsts = [segment.first_entry_id for segment in metadata.segments]
    if not firsts or firsts[0] != 0 or any(a >= b for a, b in pairwise(firsts)):
        raise BKMetadataSerializationException(
            f"ledger metadata is damaged: segments begin at entries {firsts}, not from 0 upwards"
        )
    if any(len(segment.ensemble) != metadata.ensemble_size for segment in metadata.segments):
        raise BKMetadataSerializationException(
            f"ledger metadata is damaged: an ensemble has not {metadata.ensemble_size} bookies"
        )


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _read_varint(data: bytes) -> tuple[int, int]:
    """The number at the start of `data` and how many bytes it takes."""
    value = 0
    for at, byte in enumerate(data[:10]):
        value |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return value, at + 1
    raise BKMetadataSerializationException("ledger metadata ends within its length")
