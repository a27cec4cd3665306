"""What autorecovery's nodes hold: some as protobuf's text form, the times of checks as binary.

In BookKeeper: `DataFormats.proto`, `meta/ZkLedgerUnderreplicationManager.java`.
"""

from dataclasses import dataclass
from typing import TypeVar

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from labkit.system.model.errors import BKMetadataSerializationException
from labkit.system.model.proto.replication_pb2 import (
    AuditorVoteFormat,
    CheckAllLedgersFormat,
    LedgerRereplicationLayoutFormat,
    LockDataFormat,
    UnderreplicatedLedgerFormat,
)

M = TypeVar("M", bound=Message)

_LAYOUT_TYPE = "BASIC"
_LAYOUT_VERSION = 1


@dataclass(frozen=True, slots=True)
class UnderreplicatedLedger:
    """A mark: the bookies whose copies are missing, and when that was last written (0: unknown)."""

    replicas: tuple[str, ...]
    ctime_ms: int


def encode_layout() -> bytes:
    """The layout of the marks: there is one so far."""
    return _text(LedgerRereplicationLayoutFormat(type=_LAYOUT_TYPE, version=_LAYOUT_VERSION))


def is_known_layout(data: bytes) -> bool:
    """Whether the marks are laid out in the way that this package knows.

    Raises `BKMetadataSerializationException`.
    """
    layout = _parsed(data, LedgerRereplicationLayoutFormat(), "underreplication/LAYOUT")
    return layout.type == _LAYOUT_TYPE and layout.version == _LAYOUT_VERSION


def encode_underreplicated(mark: UnderreplicatedLedger) -> bytes:
    """A mark's text."""
    return _text(UnderreplicatedLedgerFormat(replica=mark.replicas, ctime=mark.ctime_ms))


def decode_underreplicated(data: bytes) -> UnderreplicatedLedger:
    """The inverse.  Raises `BKMetadataSerializationException`."""
    mark = _parsed(data, UnderreplicatedLedgerFormat(), "the mark of an underreplicated ledger")
    return UnderreplicatedLedger(tuple(mark.replica), mark.ctime)


def encode_lock(holder: str) -> bytes:
    """A lock's text: its holder, for people to read."""
    return _text(LockDataFormat(bookieId=holder))


def encode_vote(bookie_id: str) -> bytes:
    """A vote's text, and that of the node that names the elected auditor."""
    return _text(AuditorVoteFormat(bookieId=bookie_id))


def decode_vote(data: bytes) -> str:
    """The voter's bookie id.  Raises `BKMetadataSerializationException`."""
    return _parsed(data, AuditorVoteFormat(), "an auditor's vote").bookieId


def encode_delay(delay_s: int) -> bytes:
    """How long a bookie may be away, in seconds."""
    return b"%d" % delay_s


def decode_delay(data: bytes) -> int:
    """The inverse.  Raises `BKMetadataSerializationException`."""
    if not data.isdigit():
        raise BKMetadataSerializationException(
            f"lostBookieRecoveryDelay is {data!r}; it must be a number of seconds"
        )
    return int(data)


def encode_check_time(time_ms: int) -> bytes:
    """When a check was made last.  BookKeeper has a message for each of the three checks; their
    bytes are the same.
    """
    return CheckAllLedgersFormat(checkAllLedgersCTime=time_ms).SerializeToString()


def decode_check_time(data: bytes) -> int:
    """The inverse.  Raises `BKMetadataSerializationException`."""
    try:
        return CheckAllLedgersFormat.FromString(data).checkAllLedgersCTime
    except DecodeError as error:
        raise BKMetadataSerializationException(
            f"the time of a check cannot be decoded: {error}"
        ) from None


def _text(message: Message) -> bytes:
    return text_format.MessageToString(message, as_utf8=False).encode()


def _parsed(data: bytes, message: M, what: str) -> M:
    try:
        text_format.Parse(data.decode(errors="replace"), message)
    except text_format.ParseError as error:
        raise BKMetadataSerializationException(f"{what} cannot be decoded: {error}") from None
    return message
