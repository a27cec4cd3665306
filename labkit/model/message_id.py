"""MessageID: where a message lies, as four numbers `ledgerId:entryId:partition:batchIndex`.

The ledger id comes from the metadata store, the entry id from the ledger's writer, the partition
from the topic's name, the batch index from the producer.  -1 as partition: the topic has no
partitions.  -1 as batch index: the message was not sent in a batch and is the whole entry (a batch
of one has index 0).
"""

from dataclasses import dataclass
from functools import total_ordering

from labkit.model.errors import BKIncorrectParameterException


@total_ordering
@dataclass(frozen=True, slots=True)
class MessageId:
    """The address of one message.

    Ids of one partition compare in the order in which their messages were stored.  Ids of two
    partitions have no order: the comparison raises `TypeError`.
    """

    ledger_id: int
    entry_id: int
    partition: int = -1
    batch_index: int = -1

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}:{self.partition}:{self.batch_index}"

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, MessageId) or other.partition != self.partition:
            return NotImplemented
        return self._position < other._position

    @property
    def _position(self) -> tuple[int, int, int]:
        return self.ledger_id, self.entry_id, self.batch_index

    @classmethod
    def parse(cls, text: str) -> "MessageId":
        """The id that `str` printed.  Raises `BKIncorrectParameterException` for anything else."""
        try:
            numbers = [int(part) for part in text.split(":")]
        except ValueError:
            numbers = []
        well_formed = len(numbers) == 4 and min(numbers[:2]) >= 0 and min(numbers[2:]) >= -1
        # `int` also takes "+1", "1_0" and other spellings that no id is printed in.
        if not well_formed or str(cls(*numbers)) != text:
            raise BKIncorrectParameterException(
                f"{text!r} is no MessageID; it is written ledgerId:entryId:partition:batchIndex"
                " with ids from 0, and -1 for no partition or no batch"
            )
        return cls(*numbers)
