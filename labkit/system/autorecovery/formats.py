"""Encodes and decodes the data of autorecovery's nodes, mostly protobuf messages in text format.

Each `decode` function raises `BKMetadataSerializationException` if the data is malformed.

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
_MAX_DIGITS = 10
"""Large enough for any number that BookKeeper accepts (up to 2147483647)."""


@dataclass(frozen=True, slots=True)
class UnderreplicatedLedger:
    bookies: tuple[str, ...]
    """The bookies whose copies are missing (`replica` in the format)."""
    ctime_ms: int
    """When the mark was last written, in ms since 1970, or 0."""


def encode_layout() -> bytes:
    return _text(LedgerRereplicationLayoutFormat(type=_LAYOUT_TYPE, version=_LAYOUT_VERSION))


def is_known_layout(data: bytes) -> bool:
    layout = _parsed(data, LedgerRereplicationLayoutFormat(), "underreplication/LAYOUT")
    return layout.type == _LAYOUT_TYPE and layout.version == _LAYOUT_VERSION


def encode_underreplicated(mark: UnderreplicatedLedger) -> bytes:
    return _text(UnderreplicatedLedgerFormat(replica=mark.bookies, ctime=mark.ctime_ms))


def decode_underreplicated(data: bytes, ledger_id: int) -> UnderreplicatedLedger:
    mark = _parsed(data, UnderreplicatedLedgerFormat(), f"the mark of ledger {ledger_id}")
    return UnderreplicatedLedger(tuple(mark.replica), mark.ctime)


def encode_lock(holder: str) -> bytes:
    return _text(LockDataFormat(bookieId=holder))


def encode_vote(bookie_id: str) -> bytes:
    return _text(AuditorVoteFormat(bookieId=bookie_id))


def decode_vote(data: bytes) -> str:
    return _parsed(data, AuditorVoteFormat(), "an auditor's vote").bookieId


def encode_delay(delay_s: int) -> bytes:
    return b"%d" % delay_s


def decode_delay(data: bytes) -> int:
    if not data.isdigit() or len(data) > _MAX_DIGITS:
        raise BKMetadataSerializationException(
            f"lostBookieRecoveryDelay must be a number of seconds with at most {_MAX_DIGITS}"
            f" digits, got {data[:100]!r}"
        )
    return int(data)


def encode_check_time(time_ms: int) -> bytes:
    # BookKeeper has a message type for each kind of check, but their encodings are identical.
    return CheckAllLedgersFormat(checkAllLedgersCTime=time_ms).SerializeToString()


def decode_check_time(data: bytes) -> int:
    try:
        return CheckAllLedgersFormat.FromString(data).checkAllLedgersCTime
    except DecodeError as error:
        raise BKMetadataSerializationException(
            f"cannot decode the time of a check: {error}"
        ) from None


def _text(message: Message) -> bytes:
    return text_format.MessageToString(message, as_utf8=False).encode()


def _parsed(data: bytes, message: M, name: str) -> M:
    try:
        text_format.Parse(data.decode(errors="replace"), message)
    except text_format.ParseError as error:
        raise BKMetadataSerializationException(f"cannot decode {name}: {error}") from None
    return message
