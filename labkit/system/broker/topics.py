"""A topic or partition that this broker has loaded.

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
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.names import managed_ledger_path, partition_of
from labkit.system.topic.producing.deduplication import CURSOR_NAME, Deduplication
from labkit.system.topic.producing.publishing import TopicPublisher

OnEnded = Callable[["BrokerTopic", LabkitError], None]


class ConnectedProducer(Protocol):
    name: str
    producer_id: int
    access_mode: ProducerAccessMode
    traffic: Traffic

    def disconnect(self) -> None:
        """Disconnect the producer; its client will look the topic up again."""

    def probe(self) -> None:
        """Disconnect the client if it does not respond to a PING."""


class BrokerTopic:
    """A topic's managed ledger, producers and subscriptions.

    A topic ends, and its clients are disconnected, when it is closed, when an add fails, or when
    another owner fences its ledgers. Subclasses replace the class attributes to plant bugs.
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
        self.name = name
        self.partition = partition_of(name)
        self.ledger = ledger
        self.policies = policies
        self.producers: dict[str, ConnectedProducer] = {}
        self.incoming = Traffic()
        """Messages from all producers since the topic was opened."""
        self.access = ProducerAccess(ledger)
        self.subscriptions = Subscriptions(ledger, context)
        self.publisher = self.publisher_class(
            ledger, deduplication, context.recorder, self._on_failure
        )
        self._deduplication = deduplication
        self._recorder = context.recorder
        self._on_ended = on_ended
        self.is_ended = False
        self._is_fenced = False
        self._has_stopped = False
        self._closing: asyncio.Task[None] | None = None
        ledger.when_ended(self._on_failure)

    @classmethod
    async def open(
        cls, client: BookKeeper, policies: Policies, context: DispatchContext, on_ended: OnEnded
    ) -> "BrokerTopic":
        """Raise the same exceptions as `ManagedLedger.open`."""
        name = context.topic
        path = managed_ledger_path(name)
        ledger = cls.ledger_class(name, path, client, policies.managed_ledger)
        await ledger.open()
        deduplication = None
        try:
            if policies.deduplication_enabled:
                deduplication = await cls.deduplication_class.open(ledger, client.recorder)
            elif CURSOR_NAME in ledger.cursors:
                # If the cursor were kept, it would block trimming, and its sequence ids would
                # become stale.
                await ledger.delete_cursor(CURSOR_NAME)
        except LabkitError:
            with suppress(LabkitError):
                await ledger.close()
            raise
        return cls(name, ledger, deduplication, policies, context, on_ended)

    def apply(self, policies: Policies) -> None:
        """Apply new policies; changes to deduplication take effect when the topic is reopened."""
        self.policies = policies
        self.ledger.configure(policies.managed_ledger)

    def fence(self) -> None:
        """Reject new clients until `unfence` is called; the topic is about to be deleted."""
        self._is_fenced = self.subscriptions.is_fenced = True

    def unfence(self) -> None:
        self._is_fenced = self.subscriptions.is_fenced = False

    def update_rates(self, period_s: float) -> None:
        self.incoming.update_rates(period_s)
        for producer in self.producers.values():
            producer.traffic.update_rates(period_s)
        for subscription in self.subscriptions.all:
            for consumer in subscription.consumers:
                consumer.traffic.update_rates(period_s)

    def check_open(self) -> None:
        if self.is_ended or self._is_fenced:
            raise BrokerError(
                ServerError.ServiceNotReady, f"{self.name} is being closed: look it up again"
            )

    def check_accepts_producers(self) -> None:
        self.check_open()
        if self.ledger.terminated is not None:
            raise self._terminated_error()

    def _terminated_error(self) -> BrokerError:
        return BrokerError(
            ServerError.TopicTerminatedError,
            f"{self.name} is terminated and accepts no more messages",
        )

    async def terminate(self) -> Position:
        """Store the messages received so far, then seal the topic; return its last position.

        Producers can no longer register, but consumers can read the remaining messages. Raises
        `BrokerError`, and the same exceptions as `ManagedLedger.terminate`.
        """
        self.check_open()
        self.publisher.stop()
        await self.publisher.wait_until_settled()
        last = await self.ledger.terminate()
        self.access.fail_waiting(self._terminated_error())
        for producer in list(self.producers.values()):
            producer.disconnect()
        for subscription in self.subscriptions.all:
            subscription.notify_if_end_reached()
        return last

    async def close(self) -> None:
        """Finish pending adds, store acknowledgements, disconnect clients and close the ledgers.

        If another caller has begun to close the topic, wait until that has finished. Raises the
        same exceptions as `ManagedLedger.close`.
        """
        if self._closing is None:
            self.is_ended = True
            self.access.close()
            self.publisher.stop()
            self._closing = asyncio.get_running_loop().create_task(self._close())
        # Other callers may be waiting for the same task, so cancelling one must not interrupt it.
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self.publisher.wait_until_settled()
        for producer in list(self.producers.values()):
            producer.disconnect()
        try:
            await self.subscriptions.close()
            if self._deduplication is not None:
                self._deduplication.snapshot()
        finally:
            try:
                await self.ledger.close()
            finally:  # The topic accepts nothing more, even if closing its ledger failed.
                self._has_stopped = True
                self._recorder.record("topic.closed", topic=self.name)

    def end(self, error: LabkitError) -> None:
        """Stop at once, even during `close`: this broker must not acknowledge anything more."""
        if self._has_stopped:
            return
        self.is_ended = self._has_stopped = True
        self.access.close()
        self.publisher.fail(error)
        self.subscriptions.disconnect()
        self._recorder.record("topic.ended", topic=self.name, explanation=str(error))
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close_ledger())

    def _on_failure(self, error: LabkitError) -> None:
        if not self.is_ended:
            self.end(error)
            self._on_ended(self, error)

    async def _close_ledger(self) -> None:
        with suppress(LabkitError):  # If another broker owns the topic, recovery closes the ledger.
            await self.ledger.close()
