"""A topic, or one partition of a topic, while a broker serves it.

In Pulsar: `broker/service/persistent/PersistentTopic.java`.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar, Protocol

from labkit.system.broker.access import ProducerAccess
from labkit.system.broker.dispatch.dispatcher import DispatchContext
from labkit.system.broker.errors import BrokerError
from labkit.system.broker.policies import Policies
from labkit.system.broker.subscriptions import Subscriptions
from labkit.system.broker.traffic import Traffic
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import ProducerAccessMode, ServerError
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.names import managed_ledger_path, partition_of
from labkit.system.topic.producing.deduplication import CURSOR_NAME, Deduplication
from labkit.system.topic.producing.publishing import TopicPublisher

OnEnded = Callable[["BrokerTopic", LabkitError], None]


class ConnectedProducer(Protocol):
    """A client's producer, as its topic sees it."""

    name: str
    producer_id: int
    access_mode: ProducerAccessMode
    traffic: Traffic

    def disconnect(self) -> None:
        """Disconnect the producer: its client has to look the topic up again."""

    def probe(self) -> None:
        """Another producer wants its name: check that its client is alive."""


class BrokerTopic:
    """A topic's managed ledger, producers and subscriptions.

    It ends at `close`, or by itself when an add has failed or another owner has fenced its ledgers:
    its clients are then disconnected, and return once the topic is opened again.

    Planted mistakes are subclasses with other rules.
    """

    ledger_class: ClassVar[type[ManagedLedger]] = ManagedLedger
    deduplication_class: ClassVar[type[Deduplication]] = Deduplication
    publisher_class: ClassVar[type[TopicPublisher]] = TopicPublisher

    def __init__(
        self,
        name: str,
        ledger: ManagedLedger,
        deduplication: Deduplication | None,
        policies: Policies,
        context: DispatchContext,
        on_ended: OnEnded,
    ) -> None:
        """Use `open`."""
        self.name = name
        self.partition = partition_of(name)
        self.ledger = ledger
        self.policies = policies
        self.producers: dict[str, ConnectedProducer] = {}
        self.incoming = Traffic()
        """The messages of all producers since the topic was opened."""
        self.access = ProducerAccess(ledger)
        self.subscriptions = Subscriptions(ledger, context)
        self.publisher = self.publisher_class(ledger, deduplication, context.recorder, self._ended)
        self._deduplication = deduplication
        self._recorder = context.recorder
        self._on_ended = on_ended
        self.is_ended = False
        self._is_fenced = False
        self._has_stopped = False
        self._closing: asyncio.Task[None] | None = None
        ledger.when_ended(self._ended)

    @classmethod
    async def open(
        cls, client: BookKeeper, policies: Policies, context: DispatchContext, on_ended: OnEnded
    ) -> "BrokerTopic":
        """Take the topic over.  Raises what `ManagedLedger.open` raises."""
        name = context.topic
        path = managed_ledger_path(name)
        ledger = cls.ledger_class(name, path, client, policies.managed_ledger)
        await ledger.open()
        deduplication = None
        try:
            if policies.deduplication_enabled:
                deduplication = await cls.deduplication_class.open(ledger, client.recorder)
            elif CURSOR_NAME in ledger.cursors:
                # The cursor would hold back trimming, and its marks would be wrong once they are
                # not updated.
                await ledger.delete_cursor(CURSOR_NAME)
        except LabkitError:
            with suppress(LabkitError):
                await ledger.close()
            raise
        return cls(name, ledger, deduplication, policies, context, on_ended)

    def apply(self, policies: Policies) -> None:
        """Use these policies from now on; for deduplication the topic has to be opened again."""
        self.policies = policies
        self.ledger.configure(policies.managed_ledger)

    def fence(self) -> None:
        """Refuse new clients until `unfence`: the topic is about to be deleted."""
        self._is_fenced = self.subscriptions.is_fenced = True

    def unfence(self) -> None:
        """Take new clients again."""
        self._is_fenced = self.subscriptions.is_fenced = False

    def update_rates(self, period_s: float) -> None:
        """End a period of this length, for which the rates count, and begin the next one."""
        self.incoming.update_rates(period_s)
        for producer in self.producers.values():
            producer.traffic.update_rates(period_s)
        for subscription in self.subscriptions.all:
            for consumer in subscription.consumers:
                consumer.traffic.update_rates(period_s)

    def check_open(self) -> None:
        """Raises `BrokerError` if the topic does not take clients now."""
        if self.is_ended or self._is_fenced:
            raise BrokerError(
                ServerError.ServiceNotReady, f"{self.name} is being closed here: look it up again"
            )

    def check_takes_producers(self) -> None:
        """Raises `BrokerError` if the topic is closed or terminated."""
        self.check_open()
        if self.ledger.terminated is not None:
            raise self._terminated()

    def _terminated(self) -> BrokerError:
        return BrokerError(
            ServerError.TopicTerminatedError,
            f"{self.name} is terminated: it takes no messages",
        )

    async def terminate(self) -> Position:
        """Store the messages that have arrived, and take no more, for good; returns the last one's
        position.

        Producers are disconnected, and refused when they come back; consumers get the rest.  Raises
        `BrokerError`, and what `ManagedLedger.terminate` raises.
        """
        self.check_open()
        self.publisher.stop()
        await self.publisher.settled()
        last = await self.ledger.terminate()
        self.access.refuse_waiting(self._terminated())
        for producer in list(self.producers.values()):
            producer.disconnect()
        for subscription in self.subscriptions.all:
            subscription.announce_end()
        return last

    async def close(self) -> None:
        """Store and acknowledge what has come, disconnect all clients, and close the ledgers.

        Returns when all of that is done, even if another call began it.  Raises what
        `ManagedLedger.close` raises.
        """
        if self._closing is None:
            self.is_ended = True
            self.access.close()
            self.publisher.stop()
            self._closing = asyncio.get_running_loop().create_task(self._close())
        # Others may wait for it, too: a caller that is cancelled must not stop it halfway.
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self.publisher.settled()
        for producer in list(self.producers.values()):
            producer.disconnect()
        try:
            await self.subscriptions.close()
            if self._deduplication is not None:
                self._deduplication.snapshot()
        finally:
            try:
                await self.ledger.close()
            finally:  # It takes nothing more, even if its end could not be stored.
                self._has_stopped = True
                self._recorder.record("topic.closed", note=self.name)

    def end(self, error: LabkitError) -> None:
        """Stop at once, even in the middle of `close`: this broker acknowledges nothing more."""
        if self._has_stopped:
            return
        self.is_ended = self._has_stopped = True
        self.access.close()
        self.publisher.fail(error)
        self.subscriptions.disconnect()
        self._recorder.record("topic.ended", note=f"{self.name}: {error}")
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close_ledger())

    def _ended(self, error: LabkitError) -> None:
        if not self.is_ended:
            self.end(error)
            self._on_ended(self, error)

    async def _close_ledger(self) -> None:
        with suppress(LabkitError):  # If another owner has it, recovery closes the ledger.
            await self.ledger.close()
