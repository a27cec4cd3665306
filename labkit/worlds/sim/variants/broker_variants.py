"""Mistakes of a broker, each one rule of the real code changed; `variants` gives them their names.

The docstring of each is its rule.
"""

from labkit.system.broker.broker import Broker
from labkit.system.broker.topics import BrokerTopic
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.metadata.store import MetadataStore
from labkit.system.model.errors import LabkitError
from labkit.system.topic.append_queue import AppendQueue, PendingEntry
from labkit.system.topic.chain.chain import LedgerInfo
from labkit.system.topic.chain.chain_store import ChainStore
from labkit.system.topic.chain.guarded_node import GuardedNode, ManagedLedgerFencedError
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.producing.deduplication import Deduplication, MessageDupStatus
from labkit.system.topic.producing.publishing import NO_POSITION, AttachedProducer, TopicPublisher


def broker_with(**parts: type) -> type[Broker]:
    """A broker whose topics have these parts."""
    return type("Broker", (Broker,), {"topic_class": type("BrokerTopic", (BrokerTopic,), parts)})


# Publishing


class GoesOnInLedger(ManagedLedger):
    """When no next ledger can be made, the entries that wait for it fail, and later ones are
    taken, for the ledger after that.
    """

    def end(self, error: LabkitError) -> None:
        """Only another owner ends it."""
        if isinstance(error, ManagedLedgerFencedError):
            super().end(error)
        else:
            self.queue.fail(error)

    async def push_waiting(self) -> None:
        """Begin a ledger first, if there is none."""
        if self.writer is None:
            try:
                await self.begin_ledger("opened")
            except LabkitError as error:
                self.end(error)
                return
        await super().push_waiting()


class _LaterEntriesFirst(AppendQueue):
    def order_for_next_ledger(
        self, unstored: list[PendingEntry], waiting: list[PendingEntry]
    ) -> list[PendingEntry]:
        return [*waiting, *unstored]


class PushesAgainBehind(ManagedLedger):
    """Entries that a failed ledger does not hold are pushed into the next one after later ones."""

    queue_class = _LaterEntriesFirst


class GoesOnPublishing(TopicPublisher):
    """A send that fails gets no receipt, and later ones of its producer are stored."""

    def fail(self, error: LabkitError) -> None:
        """Only another owner ends it."""
        if isinstance(error, ManagedLedgerFencedError):
            super().fail(error)


class ReceiptOfTheNewest(TopicPublisher):
    """The receipt of a duplicate names the topic's newest entry."""

    def schedule_receipts(self, producer: AttachedProducer) -> None:
        """Fill in the position before the receipt is sent."""
        for send in producer.pending_sends:
            if send.is_stored and send.position == NO_POSITION:
                send.position = self.ledger.last_confirmed
        super().schedule_receipts(producer)


# Deduplication


class PushedIsStored(Deduplication):
    """A message that was sent before is a duplicate, even while it is still on its way."""

    def judge(
        self, producer: str, sequence_id: int, highest_sequence_id: int, *, completes: bool = True
    ) -> MessageDupStatus:
        """Nothing is in doubt."""
        seen = super().judge(producer, sequence_id, highest_sequence_id, completes=completes)
        return MessageDupStatus.DUPLICATE if seen is MessageDupStatus.UNSURE else seen


class MarksOfTheCursor(Deduplication):
    """A new owner takes the marks from the cursor, and reads no later entry."""

    async def replay(self) -> int:
        return 0


# Ownership


class _ChainWithoutRecovery(ChainStore):
    async def recovered(self, last: LedgerInfo) -> list[LedgerInfo]:
        if last.closed_at_ms:
            return [last]
        reader = await self.client.open_ledger_no_recovery(last.ledger_id)
        count = reader.last_add_confirmed + 1
        return [LedgerInfo(last.ledger_id, count, 0, self.client.wall_clock_ms())]


class TakesOverWithoutRecovery(ManagedLedger):
    """A new owner takes the last ledger to end where it is confirmed, without fencing it."""

    store_class = _ChainWithoutRecovery


class _BlindNode(GuardedNode):
    async def write(self, data: bytes) -> None:
        known = self.data
        await self.read()
        self.data = known
        await super().write(data)


class _ChainWrittenBlindly(ChainStore):
    node_class = _BlindNode


class WritesChainBlindly(ManagedLedger):
    """An owner writes its own list of ledgers, whatever the stored list is by now."""

    store_class = _ChainWrittenBlindly


class _IdsInBlocks(LedgerManager):
    """Ids come from a block of a hundred that one client has for itself."""

    def __init__(self, store: MetadataStore) -> None:
        super().__init__(store)
        self._left: list[int] = []

    async def new_ledger_id(self) -> int:
        if not self._left:
            block = await super().new_ledger_id()
            self._left = list(range(100 * block, 100 * (block + 1)))
        return self._left.pop(0)


class ClientWithBlocks(BookKeeper):
    """A client takes ledger ids from the store a hundred at a time."""

    manager_class = _IdsInBlocks
