"""MessageID: the position of a message, written as `ledgerId:entryId:partition:batchIndex`.

The metadata store assigns the ledger id, the ledger's writer assigns the entry id, and the producer
assigns the batch index. The partition is part of the topic name. In each field, -1 has a special
meaning:

    entry id      the position before the ledger's first entry
    partition     the topic is not partitioned
    batch index   the message is an entire entry, not part of a batch (the only message of a batch
                  has index 0)

An id is encoded as Pulsar's `MessageIdData`, which omits a partition or batch index of -1.

In Pulsar: `client/impl/MessageIdImpl.java`, and in its C++ client `lib/MessageId.cc`.
"""

from dataclasses import dataclass, field
from functools import total_ordering

from google.protobuf.message import DecodeError

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.proto.pulsar_pb2 import MessageIdData

_UNSIGNED = (1 << 64) - 1
_LARGEST = (1 << 63) - 1


@total_ordering
@dataclass(frozen=True, slots=True)
class MessageId:
    """Ids within a partition sort in the order in which their messages were stored. The id of a
    whole entry sorts before the ids of its messages. Comparing ids from different partitions with
    `<` raises `TypeError`, unless one of them is `EARLIEST` or `LATEST`.

    The id of a chunked message is the id of its last chunk, and `first_chunk` is the id of its
    first chunk. Comparisons ignore `batch_size` and `first_chunk`.
    """

    ledger_id: int
    entry_id: int
    partition: int = -1
    batch_index: int = -1
    batch_size: int = field(default=0, compare=False)
    first_chunk: "MessageId | None" = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}:{self.partition}:{self.batch_index}"

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        if self.partition != other.partition and not (self._is_end or other._is_end):
            return NotImplemented
        return self._position < other._position

    @property
    def _position(self) -> tuple[int, int, int]:
        return self.ledger_id, self.entry_id, self.batch_index

    @property
    def _is_end(self) -> bool:
        return self in (EARLIEST, LATEST)

    @classmethod
    def parse(cls, text: str) -> "MessageId":
        """Parse a string that was returned by `str`. Raises `BKIncorrectParameterException`."""
        try:
            ledger_id, entry_id, partition, batch_index = (int(part) for part in text.split(":"))
            parsed = cls(ledger_id, entry_id, partition, batch_index)
        except ValueError:
            parsed = None
        # `int` also accepts spellings that `str` never produces, such as "+1" and "1_0".
        if parsed is None or str(parsed) != text or not parsed._is_printed:
            raise BKIncorrectParameterException(
                f"{text!r} is not a MessageID; expected ledgerId:entryId:partition:batchIndex with"
                " ids of at least 0, and with -1 if there is no partition or no batch"
            )
        return parsed

    @property
    def _is_printed(self) -> bool:
        """Whether this is either `EARLIEST` or an id that a message can have."""
        ids, indexes = (self.ledger_id, self.entry_id), (self.partition, self.batch_index)
        return self == EARLIEST or (min(ids) >= 0 and min(indexes) >= -1)

    def to_bytes(self) -> bytes:
        """Encode the id as Pulsar's clients do (`MessageId.serialize` in the Python client)."""
        data = self._to_data()
        if self.batch_index != -1:
            data.batch_index = self.batch_index
        if self.batch_size:
            data.batch_size = self.batch_size
        if self.first_chunk is not None:
            data.first_chunk_message_id.CopyFrom(self.first_chunk._to_data())
        return data.SerializeToString(deterministic=True)

    def _to_data(self) -> MessageIdData:
        data = MessageIdData(ledgerId=self.ledger_id & _UNSIGNED, entryId=self.entry_id & _UNSIGNED)
        if self.partition != -1:
            data.partition = self.partition
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> "MessageId":
        """Decode bytes that were returned by `to_bytes`. Raises `BKIncorrectParameterException`."""
        try:
            parsed = MessageIdData.FromString(data)
            # Check this here, because the parser accepts bytes in which required fields are
            # missing.
            is_id = parsed.IsInitialized()
        except DecodeError:
            is_id = False
        if not is_id:
            raise BKIncorrectParameterException(
                f"expected a MessageID in the encoding of Pulsar's clients, got"
                f" {data.hex() or 'no bytes'}"
            )
        return cls._from_data(parsed)

    @classmethod
    def _from_data(cls, data: MessageIdData) -> "MessageId":
        has_chunks = data.HasField("first_chunk_message_id")
        return cls(
            signed(data.ledgerId),
            signed(data.entryId),
            data.partition,
            data.batch_index,
            data.batch_size,
            cls._from_data(data.first_chunk_message_id) if has_chunks else None,
        )


def signed(number: int) -> int:
    """Convert an unsigned 64-bit number to a signed one."""
    return number if number <= _LARGEST else number - _UNSIGNED - 1


EARLIEST = MessageId(-1, -1)
"""The position before a topic's first message."""
LATEST = MessageId(_LARGEST, _LARGEST)
"""The position after a topic's last message."""
