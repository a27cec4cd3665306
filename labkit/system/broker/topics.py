"""A topic or partition that this broker has loaded.

    OPEN  --`close`-->  CLOSING  --everything is stored-->  ENDED

    OPEN  --an add fails, or another broker fences the ledgers-->  ENDED

    any state  --the broker's metadata session expires-->  ENDED

               new clients   sends
    OPEN       accepted      stored
    CLOSING    rejected      stored if they arrived before `close`
    ENDED      rejected      ignored

In Pulsar: `broker/service/persistent/PersistentTopic.java`.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import ClassVar, Protocol

from labkit.system.broker.access import ProducerAccess
from labkit.system.broker.dispatch.dispatcher import DispatchContext
from labkit.system.broker.errors import BrokerError, ServiceNotReadyError
from labkit.system.broker.policies import TopicPolicies
from labkit.system.broker.protocol.connection import ClientConnection
from labkit.system.broker.topic_subscriptions import TopicSubscriptions
from labkit.system.broker.traffic import Traffic
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import ProducerAccessMode, ServerError
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.names import managed_ledger_path, partition_of
from labkit.system.topic.producing.deduplication import CURSOR_NAME, Deduplication
from labkit.system.topic.producing.publishing import TopicPublisher


class TopicState(Enum):
    OPEN = auto()
    CLOSING = auto()
    ENDED = auto()


OnEnded = Callable[["BrokerTopic"], None]


class ConnectedProducer(Protocol):
    name: str
    producer_id: int
    access_mode: ProducerAccessMode
    traffic: Traffic
    connection: ClientConnection

    def disconnect(self) -> None:
        """Disconnect the producer. Its client will look the topic up again."""


class BrokerTopic:
    """A topic's managed ledger, producers and subscriptions.

    `on_ended` is called if an add fails, or if another broker fences the ledgers. Subclasses
    replace the class attributes to inject bugs.
    """

    ledger_class: ClassVar[type[ManagedLedger]] = ManagedLedger
    deduplication_class: ClassVar[type[Deduplication]] = Deduplication
    publisher_class: ClassVar[type[TopicPublisher]] = TopicPublisher

    def __init__(
        self,
        ledger: ManagedLedger,
        deduplication: Deduplication | None,
        policies: TopicPolicies,
        context: DispatchContext,
        on_ended: OnEnded,
    ) -> None:
        self.name = ledger.name
        self.partition = partition_of(ledger.name)
        self.ledger = ledger
        self.policies = policies
        self.producers: dict[str, ConnectedProducer] = {}
        self.incoming = Traffic()
        """Messages from all producers since the topic was opened."""
        self.access = ProducerAccess(ledger)
        self.subscriptions = TopicSubscriptions(ledger, context)
        self.publisher = self.publisher_class(
            ledger, deduplication, context.recorder, self._on_failure
        )
        self._deduplication = deduplication
        self._recorder = context.recorder
        self._on_ended = on_ended
        self._state = TopicState.OPEN
        self._close_task: asyncio.Task[None] | None = None
        ledger.when_ended(self._on_failure)

    @classmethod
    async def open(
        cls,
        client: BookKeeper,
        policies: TopicPolicies,
        context: DispatchContext,
        on_ended: OnEnded,
    ) -> "BrokerTopic":
        """Open the managed ledger and rebuild the deduplication marks."""
        path = managed_ledger_path(context.topic)
        ledger = cls.ledger_class(context.topic, path, client, policies.managed_ledger)
        await ledger.open()
        deduplication = None
        try:
            if policies.deduplication_enabled:
                deduplication = await cls.deduplication_class.open(ledger, client.recorder)
            elif CURSOR_NAME in ledger.cursors:
                # The cursor would block trimming, and its sequence ids would become stale.
                await ledger.delete_cursor(CURSOR_NAME)
        except LabkitError:
            with suppress(LabkitError):
                await ledger.close()
            raise
        return cls(ledger, deduplication, policies, context, on_ended)

    def apply(self, policies: TopicPolicies) -> None:
        """Apply new policies. Changes to deduplication take effect when the topic is reopened."""
        self.policies = policies
        self.ledger.configure(policies.managed_ledger)

    @property
    def is_ended(self) -> bool:
        """Whether the topic is being closed, or has ended."""
        return self._state is not TopicState.OPEN

    def update_rates(self, period_s: float) -> None:
        self.incoming.update_rates(period_s)
        for producer in self.producers.values():
            producer.traffic.update_rates(period_s)
        for subscription in self.subscriptions.all:
            for consumer in subscription.consumers:
                consumer.traffic.update_rates(period_s)

    def check_open(self) -> None:
        if self.is_ended:
            raise ServiceNotReadyError(f"{self.name} is being closed: look it up again")

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
        """Store the messages received so far, then seal the topic. Return its last position.

        Producers can no longer register, but consumers can read the remaining messages. Raises
        `BrokerError` if the topic is being closed, and the errors of `ManagedLedger.terminate`.
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

        Later calls wait for the first one. Raises the same exceptions as `ManagedLedger.close`.
        """
        if self._close_task is None:
            self._state = TopicState.CLOSING
            self.access.close()
            self.publisher.stop()
            self._close_task = asyncio.get_running_loop().create_task(self._close())
        # Other callers may be waiting for this task, so cancelling one must not interrupt it.
        await asyncio.shield(self._close_task)

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
            finally:  # Even if closing the ledger failed, the topic accepts no more requests.
                self._state = TopicState.ENDED
                self._recorder.record("topic.closed", topic=self.name)

    def end(self, error: LabkitError) -> None:
        """Stop immediately, even during `close`: this broker must acknowledge nothing more."""
        if self._state is TopicState.ENDED:
            return
        self._state = TopicState.ENDED
        self.access.close()
        # This disconnects the producers (`Producer.disconnect`). It also calls `_on_failure`,
        # which does nothing, because the topic has ended.
        self.publisher.fail(error)
        self.subscriptions.disconnect()
        self._recorder.record("topic.ended", topic=self.name, explanation=str(error))
        if self._close_task is None:
            self._close_task = asyncio.get_running_loop().create_task(self._close_ledger())

    def _on_failure(self, error: LabkitError) -> None:
        """End the topic, because an add has failed or another broker has fenced the ledgers."""
        if not self.is_ended:
            self.end(error)
            self._on_ended(self)

    async def _close_ledger(self) -> None:
        with suppress(LabkitError):  # If another broker owns the topic, recovery closes the ledger.
            await self.ledger.close()
