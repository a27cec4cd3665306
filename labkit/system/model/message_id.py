"""MessageID: a message's place, as four numbers `ledgerId:entryId:partition:batchIndex`.

The ledger id comes from the metadata store, the entry id from the ledger's writer, the partition
from the topic's name, the batch index from the producer.  -1 as partition: the topic has no
partitions.  -1 as batch index: the message was not sent in a batch and is the whole entry (a batch
of one has index 0).  -1 as entry id: before the ledger's first entry.

As bytes an id is Pulsar's `MessageIdData`, in which a number that is -1 is left out.

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
    """The address of one message.

    Ids of one partition compare in the order in which their messages were stored; the id of a whole
    entry (batch index -1) comes before those of the messages in it.  Ids of two partitions have no
    order: the comparison raises `TypeError`; only `EARLIEST` and `LATEST` compare with all.

    A client's id of a message in a batch also knows how many the batch has, and that of a message
    in chunks, which is its last chunk's, where the first one is.  Ids are compared without that.
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
        """The id that `str` printed.  Raises `BKIncorrectParameterException` for anything else."""
        try:
            ledger_id, entry_id, partition, batch_index = (int(part) for part in text.split(":"))
            parsed = cls(ledger_id, entry_id, partition, batch_index)
        except ValueError:
            parsed = None
        # `int` also takes "+1", "1_0" and other spellings that no id is printed in.
        if parsed is None or str(parsed) != text or not parsed._is_printed:
            raise BKIncorrectParameterException(
                f"{text!r} is not a MessageID; it is written ledgerId:entryId:partition:batchIndex"
                " with ids from 0, and -1 for no partition or no batch"
            )
        return parsed

    @property
    def _is_printed(self) -> bool:
        """Whether it is an id that messages have, or one of the two ends."""
        ids, indexes = (self.ledger_id, self.entry_id), (self.partition, self.batch_index)
        return self == EARLIEST or (min(ids) >= 0 and min(indexes) >= -1)

    def to_bytes(self) -> bytes:
        """The id as Pulsar's clients store it (`MessageId.serialize` of the Python one)."""
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
        """The inverse.  Raises `BKIncorrectParameterException` for bytes that are not an id."""
        try:
            parsed = MessageIdData.FromString(data)
            # protobuf takes bytes without the fields that its own schema requires.
            is_id = parsed.IsInitialized()
        except DecodeError:
            is_id = False
        if not is_id:
            raise BKIncorrectParameterException(
                f"{data.hex() or 'no bytes'}: this is not a MessageID as Pulsar's clients store it"
            )
        return cls._from_data(parsed)

    @classmethod
    def _from_data(cls, data: MessageIdData) -> "MessageId":
        has_chunks = data.HasField("first_chunk_message_id")
        return cls(
            _signed(data.ledgerId),
            _signed(data.entryId),
            data.partition,
            data.batch_index,
            data.batch_size,
            cls._from_data(data.first_chunk_message_id) if has_chunks else None,
        )


def _signed(number: int) -> int:
    return number if number <= _LARGEST else number - _UNSIGNED - 1


EARLIEST = MessageId(-1, -1)
"""Before a topic's first message."""
LATEST = MessageId(_LARGEST, _LARGEST)
"""Behind its last message, whatever that is by then."""
