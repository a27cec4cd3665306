"""A broker: connections of clients, and the topics that it serves.

A topic is opened when the first client wants it and this broker owns its bundle.  It is closed when
the bundle is given up, and ends at once when the broker's session with the metadata store is lost,
when another owner has fenced its ledgers, or when an add has failed; then the next client that
wants it has it opened anew, by whichever broker owns it.

In Pulsar: `broker/service/BrokerService.java`, `broker/PulsarService.java`.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NoReturn

from labkit.client.bookkeeper import BookKeeper
from labkit.client.writer import MAX_PAYLOAD_SIZE
from labkit.metadata.store import NodeExistsError
from labkit.model.errors import BKIncorrectParameterException, LabkitError
from labkit.model.net import Connection as Wire
from labkit.model.net import OnBodies
from labkit.model.proto.pulsar_pb2 import ServerError
from labkit.pulsar.authentication import ANYBODY, Authenticate, Identity
from labkit.pulsar.authorization import Authorization
from labkit.pulsar.connection import Connection, Handlers
from labkit.pulsar.consumers import CONSUMER_HANDLERS, leave_all
from labkit.pulsar.dispatch.dispatcher import DispatchContext
from labkit.pulsar.errors import BrokerError, refused_names
from labkit.pulsar.lookup import LOOKUP_HANDLERS, broker_for
from labkit.pulsar.namespaces import NAMESPACE_HANDLERS
from labkit.pulsar.policies import Policies, read_policies
from labkit.pulsar.producers import PRODUCER_HANDLERS
from labkit.pulsar.refusals import REFUSAL_HANDLERS
from labkit.pulsar.schemas import SCHEMA_HANDLERS, Schemas
from labkit.pulsar.topics import BrokerTopic
from labkit.topic.config import PULSAR_DEFAULTS, ManagedLedgerConfig
from labkit.topic.names import (
    full_name,
    managed_ledger_path,
    namespace_of,
    partition_of,
    partitions_path,
    shortened,
)
from labkit.topic.ownership import BrokerAddress, NamespaceBundle, TopicOwnership, bundle_of
from labkit.topic.publishing import ProducerNames
from labkit.topic.topic import NoTopicError, partition_count

_HANDLERS: Handlers = {
    **LOOKUP_HANDLERS,
    **PRODUCER_HANDLERS,
    **CONSUMER_HANDLERS,
    **NAMESPACE_HANDLERS,
    **SCHEMA_HANDLERS,
    **REFUSAL_HANDLERS,
}
_MOST_PARTITIONS = 10_000
"""A client opens a producer or consumer for each.  In Pulsar there is no limit by default."""
_METADATA_SIZE = 10 * 1024
"""At most this much of an entry is not counted by a client that keeps to the largest size."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """How a broker serves; names and defaults are those of Pulsar's `broker.conf`.

    With `default_num_partitions` above 0 a topic that a client wants and that is not there is made
    with so many partitions; `max_num_partitions_per_partitioned_topic` 0 stands for 10,000, which
    is the most.  Entries that consumers are to get and that cannot be read are tried
    again after pauses that double, from `dispatcher_read_failure_backoff_initial_ms` on.  Raises
    `BKIncorrectParameterException` for a value out of its range.
    """

    max_message_size: int = MAX_PAYLOAD_SIZE - _METADATA_SIZE
    keep_alive_interval_s: float = 30.0
    authentication_refresh_check_s: float = 60.0
    allow_auto_topic_creation: bool = True
    default_num_partitions: int = 0
    max_num_partitions_per_partitioned_topic: int = 0
    broker_deduplication_enabled: bool = False
    dispatcher_read_failure_backoff_initial_ms: int = 15_000
    dispatcher_read_failure_backoff_max_ms: int = 60_000
    managed_ledger: ManagedLedgerConfig = PULSAR_DEFAULTS

    def __post_init__(self) -> None:
        largest = MAX_PAYLOAD_SIZE - _METADATA_SIZE
        if not 1 <= self.max_message_size <= largest:
            raise BKIncorrectParameterException(
                f"max_message_size is {self.max_message_size}; allowed are 1 to {largest}, which"
                " fits into an entry"
            )
        if self.authentication_refresh_check_s <= 0:
            raise BKIncorrectParameterException(
                f"authentication_refresh_check_s is {self.authentication_refresh_check_s}; allowed"
                " are values above 0"
            )
        if self.keep_alive_interval_s <= 0:
            raise BKIncorrectParameterException(
                f"keep_alive_interval_s is {self.keep_alive_interval_s}; allowed are values above 0"
            )
        for name in ("default_num_partitions", "max_num_partitions_per_partitioned_topic"):
            if not 0 <= getattr(self, name) <= _MOST_PARTITIONS:
                raise BKIncorrectParameterException(
                    f"{name} is {getattr(self, name)}; allowed are 0 to {_MOST_PARTITIONS}"
                )
        first_ms = self.dispatcher_read_failure_backoff_initial_ms
        longest_ms = self.dispatcher_read_failure_backoff_max_ms
        if not 1 <= first_ms <= longest_ms:
            raise BKIncorrectParameterException(
                f"dispatcher_read_failure_backoff_initial_ms is {first_ms} and"
                f" dispatcher_read_failure_backoff_max_ms {longest_ms}; allowed are 1 and above,"
                " and the first not above the second"
            )

    @property
    def most_partitions(self) -> int:
        """Of one topic."""
        return self.max_num_partitions_per_partitioned_topic or _MOST_PARTITIONS

    @property
    def max_entry_size(self) -> int:
        """What a message and its metadata may take in an entry, in bytes."""
        return self.max_message_size + _METADATA_SIZE


class Broker:
    """Serves the topics of the bundles that it owns."""

    topic_class: ClassVar[type[BrokerTopic]] = BrokerTopic

    def __init__(
        self,
        client: BookKeeper,
        address: BrokerAddress,
        config: BrokerConfig,
        authenticate: Authenticate | None = None,
        authorization: Authorization | None = None,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`address` must be where clients reach it, in the words that they use.  Without
        `authenticate` all clients are let in; without an `authorization` who is let in may do
        everything.  `log` takes a line for what a client is refused as its own mistake.
        """
        self.client = client
        self.store = client.store
        self.address = address
        self.config = config
        self._authenticate = authenticate
        self.authorization = authorization
        self.log = log
        self.ownership = TopicOwnership(client.store, address, client.recorder)
        self.schemas = Schemas(client.store)
        self.producer_names = ProducerNames(client.store)
        self._topics: dict[str, asyncio.Task[BrokerTopic]] = {}
        self._connections: dict[Connection, None] = {}
        self._is_stopping = False
        self.ownership.when_lost(self._lost)

    def accept(self, wire: Wire) -> OnBodies:
        """A client connected; returns what takes its frames."""
        connection = Connection(wire, self, _HANDLERS)
        self._connections[connection] = None
        connection.when_closed(partial(leave_all, connection))
        connection.when_closed(partial(self._connections.pop, connection))
        return connection.on_bodies

    async def start(self) -> None:
        """Be known to clients and to the other brokers.  Raises `MetadataUnavailableError`."""
        await self.ownership.register()

    async def run(self) -> None:
        """Look after the connections until cancelled."""
        if self._authenticate is None:
            await self._keep_alive()
        await asyncio.gather(self._keep_alive(), self._look_at_credentials())

    async def _keep_alive(self) -> NoReturn:
        while True:
            await asyncio.sleep(self.config.keep_alive_interval_s)
            for connection in self.connections:
                connection.keep_alive()

    async def _look_at_credentials(self) -> NoReturn:
        while True:
            await asyncio.sleep(self.config.authentication_refresh_check_s)
            for connection in self.connections:
                connection.look_at_credentials(self.client.wall_clock_ms())

    async def stop(self) -> None:
        """Give up all bundles, after closing their topics, and all connections."""
        self._is_stopping = True
        await self.ownership.unregister()
        await asyncio.gather(*map(self.unload_bundle, self.ownership.owned))
        for connection in self.connections:
            connection.close()

    def identify(self, method: str, data: bytes) -> Identity:
        """Who a client is that gives this.  Raises `BrokerError` when it is not let in."""
        return ANYBODY if self._authenticate is None else self._authenticate(method, data)

    async def check_may(self, role: str, topic: str, *actions: str, subscription: str = "") -> None:
        """Raises what `Authorization.check_topic` raises."""
        if self.authorization is not None:
            name = checked_name(topic)
            await self.authorization.check_topic(role, name, actions, subscription)

    # Where topics are

    async def find(self, topic: str, *, authoritative: bool) -> tuple[BrokerAddress, bool]:
        """The broker that serves a topic, and True; or one that would, if asked, and False.

        Asked with `authoritative`, this broker takes it if nobody has it.  Raises `BrokerError`,
        `BundleUnloadingError`, `MetadataUnavailableError`.
        """
        name = checked_name(topic)
        owner = await self.ownership.owner_of(name)
        # A node with this address may be that of a process that died here.
        mine = owner is not None and owner.service_url == self.address.service_url
        if owner is not None and not mine:
            return owner, True
        if self._is_stopping:
            raise BrokerError(ServerError.ServiceNotReady, "this broker is being shut down")
        if not authoritative and not mine:
            chosen = broker_for(name, await self.ownership.brokers() or [self.address])
            if chosen.service_url != self.address.service_url:
                return chosen, False
        return await self.ownership.acquire(name), True

    async def partition_count(self, topic: str, *, create: bool) -> int:
        """How many partitions a topic has; 0: it is not partitioned.

        With `create` a topic that is not there is made, if the configuration says so.  Raises
        `BrokerError` if there is no such topic and it is not to be made.
        """
        name = checked_name(topic)
        if partition_of(name) >= 0:
            return 0
        with suppress(NoTopicError):
            return await partition_count(self.client, name)
        if await self._is_stored(name):
            return 0
        if not (create and self.config.allow_auto_topic_creation):
            raise _no_topic(name)
        if count := self.config.default_num_partitions:
            with suppress(NodeExistsError):
                await self.store.create(
                    partitions_path(name), json.dumps({"partitions": count}).encode()
                )
            return await partition_count(self.client, name)
        return 0

    @property
    def connections(self) -> list[Connection]:
        """Those that are open."""
        return list(self._connections)

    # Topics

    @property
    def topics(self) -> list[BrokerTopic]:
        """Those that are open, by name."""
        opened = (self._topics[name] for name in sorted(self._topics))
        return [task.result() for task in opened if task.done() and task.exception() is None]

    async def topic(self, name: str) -> BrokerTopic:
        """A topic that this broker serves, opened if it is not.

        Raises `BrokerError` when another broker serves it, and what `BrokerTopic.open` raises.
        """
        name = checked_name(name)
        if not self.ownership.owns(name) and not await self.ownership.takes_back(name):
            raise _not_here(name)
        opening = self._topics.get(name)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._open(name))
            self._topics[name] = opening
        topic = await asyncio.shield(opening)
        topic.check_open()
        return topic

    async def unload(self, name: str) -> None:
        """Close a topic; whoever wants it has it opened again."""
        opening = self._topics.get(name)
        if opening is None:
            return
        with suppress(LabkitError):  # It could not be opened, or closed: recovery will do it.
            await (await asyncio.shield(opening)).close()
        self._forget(name, opening)

    async def unload_bundle(self, bundle: NamespaceBundle) -> None:
        """Close its topics, and let whoever is asked next serve them."""
        await self.ownership.disable(bundle)
        await asyncio.gather(*map(self.unload, self._topics_of([bundle])))
        await self.ownership.release(bundle)

    async def _open(self, name: str) -> BrokerTopic:
        task = asyncio.current_task()
        assert task is not None
        try:
            await self._check_may_open(name)
            defaults = Policies(
                self.config.broker_deduplication_enabled, self.config.managed_ledger
            )
            policies = await read_policies(self.store, namespace_of(name), defaults)
            context = DispatchContext(
                name,
                self.client.wall_clock_ms,
                self.client.recorder,
                self.config.dispatcher_read_failure_backoff_initial_ms,
                self.config.dispatcher_read_failure_backoff_max_ms,
            )
            topic = await self.topic_class.open(self.client, policies, context, self._ended)
        except BaseException:
            self._forget(name, task)
            raise
        if self._topics.get(name) is not task or not self.ownership.owns(name):
            topic.end(_not_here(name))
        if topic.is_ended:
            self._forget(name, task)
        return topic

    async def check_exists(self, topic: str) -> None:
        """Raises `BrokerError` if there is no such topic, or its topic has no such partition."""
        name = checked_name(topic)
        if partition_of(name) < 0:
            await self.partition_count(name, create=False)
        elif not await self._is_partition(name) and not await self._is_stored(name):
            raise _no_topic(name)

    async def _check_may_open(self, name: str) -> None:
        """Refuse a partition that its topic has not, and a topic that must not be made."""
        if self.config.allow_auto_topic_creation:
            await self._is_partition(name)
        else:
            await self.check_exists(name)

    async def _is_stored(self, name: str) -> bool:
        return await self.store.exists(managed_ledger_path(name))

    async def _is_partition(self, name: str) -> bool:
        """Whether it belongs to a partitioned topic.  Raises `BrokerError` if that has fewer."""
        partition = partition_of(name)
        if partition < 0:
            return False
        whole = name.removesuffix(f"-partition-{partition}")
        try:
            count = await partition_count(self.client, whole)
        except NoTopicError:
            return False
        if partition >= count:
            raise BrokerError(
                ServerError.TopicNotFound, f"{whole} has {count} partitions, from 0 on"
            )
        return True

    def _ended(self, topic: BrokerTopic, _: LabkitError) -> None:
        task = self._topics.get(topic.name)
        if task is not None and task.done() and task.result() is topic:
            del self._topics[topic.name]

    def _lost(self, bundles: Sequence[NamespaceBundle]) -> None:
        error = BrokerError(ServerError.ServiceNotReady, "the broker's session was lost")
        for name in self._topics_of(bundles):
            task = self._topics.pop(name)
            if task.done() and task.exception() is None:
                task.result().end(error)

    def _topics_of(self, bundles: Sequence[NamespaceBundle]) -> list[str]:
        return [name for name in self._topics if bundle_of(name) in bundles]

    def _forget(self, name: str, task: "asyncio.Task[BrokerTopic]") -> None:
        if self._topics.get(name) is task:
            del self._topics[name]


def _not_here(name: str) -> BrokerError:
    return BrokerError(
        ServerError.ServiceNotReady, f"{name} is not served here (now): look it up again"
    )


def _no_topic(name: str) -> BrokerError:
    return BrokerError(ServerError.TopicNotFound, f"there is no topic {name}")


def checked_name(topic: str) -> str:
    """A topic's full name.  Raises `BrokerError`."""
    if topic.startswith("non-persistent://"):
        raise BrokerError(
            ServerError.NotAllowedError,
            f"{shortened(topic)}: topics that are not stored are not served here",
        )
    with refused_names():
        return full_name(topic)
