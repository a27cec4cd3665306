"""Mistakes of a broker, each one rule of the real code changed; `variants` gives them their names.

The docstring of each is its rule.
"""

from contextlib import suppress
from dataclasses import replace

from labkit.client.bookkeeper import BookKeeper
from labkit.client.writer import LedgerWriter
from labkit.metadata.ledger_manager import LedgerManager
from labkit.metadata.store import MetadataStore, NoNodeError
from labkit.model.errors import LabkitError
from labkit.pulsar.broker import Broker
from labkit.pulsar.topics import BrokerTopic
from labkit.topic.chain import LedgerInfo
from labkit.topic.chain_store import ChainStore
from labkit.topic.deduplication import Deduplication, Seen
from labkit.topic.guarded_node import GuardedNode, ManagedLedgerFencedError
from labkit.topic.managed_ledger import ManagedLedger
from labkit.topic.publishing import NO_POSITION, AttachedProducer, TopicPublisher


def broker_with(**parts: type) -> type[Broker]:
    """A broker whose topics have these parts."""
    return type("Broker", (Broker,), {"topic_class": type("BrokerTopic", (BrokerTopic,), parts)})


# Publishing


class GoesOnInLedger(ManagedLedger):
    """When no next ledger can be made, the entries that wait for it fail, and later ones are
    taken, for the ledger after that.
    """

    def _end(self, error: LabkitError) -> None:
        if isinstance(error, ManagedLedgerFencedError):
            super()._end(error)
            return
        abandoned = [*self._pushed, *self._waiting]
        self._pushed.clear()
        self._waiting.clear()
        for pending in abandoned:
            if not pending.stored.done():
                pending.stored.set_exception(error)

    async def _push_waiting(self) -> None:
        if self._writer is None and self._ended is None:
            try:
                await self._begin_ledger("opened")
            except LabkitError as error:
                self._end(error)
                return
        await super()._push_waiting()


class PushesAgainBehind(ManagedLedger):
    """What a failed ledger does not hold is pushed into the next one behind what came later."""

    async def _seal(self, writer: LedgerWriter) -> None:
        await super()._seal(writer)
        self._waiting.extend(self._pushed)
        self._pushed.clear()


class GoesOnPublishing(TopicPublisher):
    """A send that fails gets no receipt, and later ones of its producer are stored."""

    def fail(self, error: LabkitError) -> None:
        """Only another owner ends it."""
        if isinstance(error, ManagedLedgerFencedError):
            super().fail(error)


class ReceiptOfTheNewest(TopicPublisher):
    """The receipt of a duplicate names the topic's newest entry."""

    def tell_soon(self, producer: AttachedProducer) -> None:
        """Put it in before it is told."""
        for send in producer._sends:
            if send.position == NO_POSITION:
                send.position = self._ledger.last_confirmed
        super().tell_soon(producer)


# Deduplication


class PushedIsStored(Deduplication):
    """What was sent before is a duplicate, be it only under way."""

    def see(
        self, producer: str, sequence_id: int, highest_sequence_id: int, *, completes: bool = True
    ) -> Seen:
        """Nothing is in doubt."""
        seen = super().see(producer, sequence_id, highest_sequence_id, completes=completes)
        return Seen.DUPLICATE if seen is Seen.UNSURE else seen


class MarksOfTheCursor(Deduplication):
    """A new owner takes the marks as the cursor has them, and reads no entry behind it again."""

    async def _replay(self) -> int:
        return 0


# Ownership


class _ChainWithoutRecovery(ChainStore):
    async def _recovered(self, last: LedgerInfo) -> list[LedgerInfo]:
        if last.closed_at_ms:
            return [last]
        reader = await self._client.open_ledger_no_recovery(last.ledger_id)
        count = reader.last_add_confirmed + 1
        return [LedgerInfo(last.ledger_id, count, 0, self._client.wall_clock_ms())]


class TakesOverWithoutRecovery(ManagedLedger):
    """A new owner takes the last ledger to end where it is confirmed, and does not fence it."""

    def __init__(self, *parts: object) -> None:
        super().__init__(*parts)  # type: ignore[arg-type]
        self._store.__class__ = _ChainWithoutRecovery


class _BlindNode(GuardedNode):
    async def write(self, data: bytes) -> None:
        with suppress(NoNodeError):
            _, self._version = await self._store.get(self._path)
        await super().write(data)


class WritesChainBlindly(ManagedLedger):
    """An owner writes the list of ledgers as he has it, whatever it is by now."""

    def __init__(self, *parts: object) -> None:
        super().__init__(*parts)  # type: ignore[arg-type]
        self._store._node.__class__ = _BlindNode


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

    def __init__(self, *parts: object) -> None:
        super().__init__(*parts)  # type: ignore[arg-type]
        self.context = replace(self.context, manager=_IdsInBlocks(self.store))
