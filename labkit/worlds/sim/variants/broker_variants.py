"""Broker bugs, each of which changes one rule of the real code. `variants` lists their names.

The docstring of each class describes the bug.
"""

from labkit.system.broker.broker import Broker
from labkit.system.broker.topics import BrokerTopic
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.metadata.store import MetadataStore
from labkit.system.model.errors import LabkitError
from labkit.system.topic.append_queue import AppendQueue, PendingEntry
from labkit.system.topic.chain.chain_store import ChainStore
from labkit.system.topic.chain.guarded_node import GuardedNode, ManagedLedgerFencedError
from labkit.system.topic.chain.ledger_chain import NOWHERE, LedgerInfo
from labkit.system.topic.chain.rollover import Rollover
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.producing.deduplication import Deduplication, MessageDupStatus
from labkit.system.topic.producing.publishing import AttachedProducer, TopicPublisher


def broker_with(**parts: type) -> type[Broker]:
    return type("Broker", (Broker,), {"topic_class": type("BrokerTopic", (BrokerTopic,), parts)})


# Publishing


class ContinuesAfterFailedRollover(ManagedLedger):
    """After a failed rollover, later entries are stored although the waiting entries have failed.

    If the next ledger cannot be created, the entries that wait for it fail. Later entries are still
    accepted, and stored in the ledger that is created afterwards.
    """

    def abandon(self, error: LabkitError) -> None:
        """Stop only if another broker owns the topic. Otherwise, fail only the waiting entries."""
        if isinstance(error, ManagedLedgerFencedError):
            super().abandon(error)
        else:
            self.queue.fail(error)

    async def push_waiting(self) -> None:
        """Create a ledger first if no ledger is open."""
        if self.writer is None:
            try:
                await self.begin_ledger(Rollover("opened", "opened"))
            except LabkitError as error:
                self.abandon(error)
                return
        await super().push_waiting()


class _LaterEntriesFirst(AppendQueue):
    def order_for_next_ledger(
        self, unstored: list[PendingEntry], waiting: list[PendingEntry]
    ) -> list[PendingEntry]:
        return [*waiting, *unstored]


class ResendsOutOfOrder(ManagedLedger):
    """Entries that are missing in a failed ledger are written to the next ledger, but after later
    entries.
    """

    queue_class = _LaterEntriesFirst


class ContinuesAfterFailedSend(TopicPublisher):
    """A failed send gets no receipt, but the producer's later messages are still stored."""

    def fail(self, error: LabkitError) -> None:
        """End this publisher only if another broker owns the topic."""
        if isinstance(error, ManagedLedgerFencedError):
            super().fail(error)


class ReceiptOfNewestEntry(TopicPublisher):
    """The receipt for a duplicate contains the position of the topic's newest entry."""

    def schedule_receipts(self, producer: AttachedProducer) -> None:
        for send in producer.pending_sends:
            if send.is_stored and send.position == NOWHERE:
                send.position = self.ledger.last_confirmed
        super().schedule_receipts(producer)


# Deduplication


class TreatsPendingAsStored(Deduplication):
    """A message that is sent again counts as a duplicate even if the original is still pending."""

    def check_send(
        self, producer: str, sequence_id: int, highest_sequence_id: int, *, completes: bool = True
    ) -> MessageDupStatus:
        verdict = super().check_send(
            producer, sequence_id, highest_sequence_id, completes=completes
        )
        return MessageDupStatus.DUPLICATE if verdict is MessageDupStatus.UNSURE else verdict


class SkipsReplay(Deduplication):
    """A new owner uses the deduplication state from the cursor without replaying later entries."""

    async def replay(self) -> int:
        return 0


# Ownership


class _ChainWithoutRecovery(ChainStore):
    async def recover_last_ledger(self, last: LedgerInfo) -> list[LedgerInfo]:
        if last.closed_at_ms:
            return [last]
        reader = await self.client.open_ledger_no_recovery(last.ledger_id)
        count = reader.last_add_confirmed + 1
        return [LedgerInfo(last.ledger_id, count, 0, self.client.wall_clock_ms())]


class TakesOverWithoutRecovery(ManagedLedger):
    """A new owner ends the last ledger at its LastAddConfirmed without fencing it."""

    store_class = _ChainWithoutRecovery


class _UnguardedNode(GuardedNode):
    async def write(self, data: bytes) -> None:
        await self.read()
        await super().write(data)


class _OverwrittenChain(ChainStore):
    node_class = _UnguardedNode


class OverwritesLedgerList(ManagedLedger):
    """An owner overwrites the stored ledger list even if it has changed in the meantime."""

    store_class = _OverwrittenChain


class _IdsInBlocks(LedgerManager):
    def __init__(self, store: MetadataStore) -> None:
        super().__init__(store)
        self._left: list[int] = []

    async def new_ledger_id(self) -> int:
        if not self._left:
            block = await super().new_ledger_id()
            self._left = list(range(100 * block, 100 * (block + 1)))
        return self._left.pop(0)


class ReservesLedgerIds(BookKeeper):
    """Each client reserves a hundred ledger ids at a time."""

    manager_class = _IdsInBlocks
