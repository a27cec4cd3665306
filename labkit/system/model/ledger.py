"""A ledger's metadata: its ensembles, its quorums and its state.

There are three format versions:

    1    since BookKeeper 4.0   lines of text; Qa equals Qw, and there is no password
    2    since 4.2              protobuf's text format
    3    since 4.9              a length, followed by protobuf's binary format

Each starts with a line that contains `BookieMetadataFormatVersion`, a tab and the version number.
New ledgers use version 3. An update does not change the version of existing metadata, so that the
software that created the ledger can still read it.

In BookKeeper: `client/LedgerMetadataImpl.java`, `meta/LedgerMetadataSerDe.java`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from io import BytesIO
from itertools import pairwise

from google.protobuf import proto, text_format
from google.protobuf.message import DecodeError

from labkit.system.model.entry import NO_ENTRY_ID, DigestType
from labkit.system.model.errors import (
    BKIncorrectParameterException,
    BKMetadataSerializationException,
)
from labkit.system.model.proto.bookkeeper_pb2 import LedgerMetadataFormat

_VERSION_LINE = b"BookieMetadataFormatVersion\t"
_NEWEST = 3
_VERSIONS = {_VERSION_LINE + b"%d\n" % version: version for version in (1, 2, _NEWEST)}
_CLOSED = "CLOSED"
_IN_RECOVERY_MARK = "-102"
"""Version 1 has no state IN_RECOVERY; it stores CLOSED with this number as the last entry id."""


class LedgerState(IntEnum):
    """IN_RECOVERY means that a client is determining the last entry, and CLOSED means that the
    ledger never changes again.
    """

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


@dataclass(frozen=True, slots=True)
class Segment:
    """The ensemble that stores the entries from `first_entry_id` on. The order of its bookies
    matters.
    """

    first_entry_id: int
    ensemble: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """Describes where a ledger's entries are stored and, if the ledger is closed, where it ends.

    Invariants: ensemble size E >= write quorum Qw >= ack quorum Qa >= 1; every ensemble has E
    bookies; the segments are in ascending order of their first entries. `last_entry_id` and
    `length` are meaningful only if the state is CLOSED.

    A client uses `c_token` to recognize ledgers that it created itself. `ctime_ms` is the
    wall-clock time at which the ledger was created; labkit does not set it, but other software
    does. If `has_password` is False (version 1), the client that opens the ledger must supply the
    password and the digest type.
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
    ctime_ms: int | None = None
    has_password: bool = True
    format_version: int = _NEWEST

    def ensemble_at(self, entry_id: int) -> tuple[str, ...]:
        return next(s.ensemble for s in reversed(self.segments) if s.first_entry_id <= entry_id)

    def closed(self, last_entry_id: int, length: int) -> "LedgerMetadata":
        """Return the metadata of the ledger after closing. Like every update, closing removes the
        token.
        """
        state = LedgerState.CLOSED
        return replace(self, state=state, last_entry_id=last_entry_id, length=length, c_token=0)


def check_quorums(ensemble_size: int, write_quorum: int, ack_quorum: int) -> None:
    """Raise `BKIncorrectParameterException` unless E >= Qw >= Qa >= 1."""
    if not ensemble_size >= write_quorum >= ack_quorum >= 1:
        raise BKIncorrectParameterException(
            f"ensemble_size {ensemble_size}, write_quorum {write_quorum}, ack_quorum {ack_quorum}:"
            " expected ensemble_size >= write_quorum >= ack_quorum >= 1"
        )


def encode_ledger_metadata(metadata: LedgerMetadata) -> bytes:
    """Encode the metadata in its format version. Older versions omit some of the fields."""
    header = _VERSION_LINE + b"%d\n" % metadata.format_version
    if metadata.format_version == 1:
        return header + "\n".join(_version_1_lines(metadata)).encode()
    message = _to_message(metadata)
    if metadata.format_version == 2:
        return header + text_format.MessageToString(message, as_utf8=False).encode()
    # Set the token only here: version 2 must not contain one, because its readers reject unknown
    # fields.
    message.cToken = metadata.c_token
    body = BytesIO()
    proto.serialize_length_prefixed(message, body)
    return header + body.getvalue()


def decode_ledger_metadata(data: bytes) -> LedgerMetadata:
    """Decode metadata of any version. Raises `BKMetadataSerializationException` if the format
    version is not 1, 2 or 3, or if the metadata violates the invariants of `LedgerMetadata`.
    """
    line, end, body = data.partition(b"\n")
    version = _VERSIONS.get(line + end)
    if version is None:
        raise BKMetadataSerializationException(
            f"ledger metadata begins with {line[:40]!r}; expected format version 1, 2 or 3"
        )
    try:
        if version == 1:
            metadata = _from_version_1(body.decode())
        else:
            message = _parse_text(body) if version == 2 else _parse_bytes(body)
            metadata = replace(_from_message(message), format_version=version)
        _check_invariants(metadata)
    except (
        DecodeError,
        text_format.ParseError,
        ValueError,
        BKIncorrectParameterException,
    ) as error:
        raise BKMetadataSerializationException(f"ledger metadata is damaged: {error}") from None
    return metadata


def _parse_text(body: bytes) -> LedgerMetadataFormat:
    message = text_format.Parse(body.decode(), LedgerMetadataFormat())
    if not message.IsInitialized():
        raise DecodeError("a required field is missing")
    return message


def _parse_bytes(body: bytes) -> LedgerMetadataFormat:
    message = proto.parse_length_prefixed(LedgerMetadataFormat, BytesIO(body))
    if message is None:
        raise DecodeError("the message is missing")
    return message


def _to_message(metadata: LedgerMetadata) -> LedgerMetadataFormat:
    message = LedgerMetadataFormat(
        quorumSize=metadata.write_quorum,
        ensembleSize=metadata.ensemble_size,
        length=metadata.length,
        lastEntryId=metadata.last_entry_id,
        state=metadata.state.name,
        digestType=metadata.digest_type.name if metadata.has_password else None,
        password=metadata.password if metadata.has_password else None,
        ackQuorumSize=metadata.ack_quorum,
        ctime=metadata.ctime_ms,
    )
    for segment in metadata.segments:
        message.segment.add(ensembleMember=segment.ensemble, firstEntryId=segment.first_entry_id)
    for key, value in metadata.custom_metadata:
        message.customMetadata.add(key=key, value=value)
    return message


def _from_message(message: LedgerMetadataFormat) -> LedgerMetadata:
    closed = message.state == LedgerMetadataFormat.CLOSED
    return LedgerMetadata(
        ensemble_size=message.ensembleSize,
        write_quorum=message.quorumSize,
        # Before ack quorums existed, every bookie of the write quorum had to acknowledge.
        ack_quorum=message.ackQuorumSize or message.quorumSize,
        segments=tuple(Segment(s.firstEntryId, tuple(s.ensembleMember)) for s in message.segment),
        digest_type=DigestType(message.digestType),
        password=message.password,
        state=LedgerState(message.state),
        last_entry_id=message.lastEntryId if closed else NO_ENTRY_ID,
        length=message.length if closed else 0,
        custom_metadata=tuple((item.key, item.value) for item in message.customMetadata),
        c_token=message.cToken,
        ctime_ms=message.ctime if message.HasField("ctime") else None,
        has_password=message.HasField("password"),
    )


def _version_1_lines(metadata: LedgerMetadata) -> Iterator[str]:
    for number in (metadata.write_quorum, metadata.ensemble_size, metadata.length):
        yield str(number)
    for segment in metadata.segments:
        yield "\t".join((str(segment.first_entry_id), *segment.ensemble))
    if metadata.state is LedgerState.CLOSED:
        yield f"{metadata.last_entry_id}\t{_CLOSED}"
    elif metadata.state is LedgerState.IN_RECOVERY:
        yield f"{_IN_RECOVERY_MARK}\t{_CLOSED}"
    else:
        yield ""


def _from_version_1(text: str) -> LedgerMetadata:
    quorum, size, length, *rest = text.removesuffix("\n").split("\n")
    length_if_closed = int(length)
    segments: list[Segment] = []
    state, last_entry_id = LedgerState.OPEN, NO_ENTRY_ID
    for line in rest:
        first, *bookies = line.split("\t")
        if bookies == [_CLOSED]:
            if first == _IN_RECOVERY_MARK:
                state = LedgerState.IN_RECOVERY
            else:
                state, last_entry_id = LedgerState.CLOSED, int(first)
            break
        segments.append(Segment(int(first), tuple(bookies)))
    return LedgerMetadata(
        ensemble_size=int(size),
        write_quorum=int(quorum),
        ack_quorum=int(quorum),
        segments=tuple(segments),
        state=state,
        last_entry_id=last_entry_id,
        length=length_if_closed if state is LedgerState.CLOSED else 0,
        has_password=False,
        format_version=1,
    )


def _check_invariants(metadata: LedgerMetadata) -> None:
    check_quorums(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)
    firsts = [segment.first_entry_id for segment in metadata.segments]
    if not firsts or firsts[0] != 0 or any(a >= b for a, b in pairwise(firsts)):
        raise ValueError(
            f"segments begin at entries {firsts}; the first must begin at entry 0, and the others"
            " must follow in ascending order"
        )
    if any(len(segment.ensemble) != metadata.ensemble_size for segment in metadata.segments):
        raise ValueError(f"not every ensemble has {metadata.ensemble_size} bookies")
