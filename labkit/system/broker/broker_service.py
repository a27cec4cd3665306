"""Looks up, loads and unloads the topics of a broker.

If this broker owns a topic's bundle, it opens the topic on the first request for it, and closes the
topic when it gives up the bundle. It shuts the topic down immediately when the broker's metadata
session expires, when another owner fences the topic's ledgers, or when an add fails.

In Pulsar: `broker/service/BrokerService.java`.
"""

import asyncio
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import ClassVar

from labkit.system.broker.config import BrokerConfig
from labkit.system.broker.dispatch.dispatcher import DispatchContext
from labkit.system.broker.errors import (
    BrokerError,
    NotAllowedError,
    ServiceNotReadyError,
    TopicNotFoundError,
)
from labkit.system.broker.ownership import BrokerAddress, NamespaceBundle, TopicOwnership, bundle_of
from labkit.system.broker.policies import check_namespace_exists, read_topic_policies
from labkit.system.broker.protocol.authentication import ANONYMOUS, Authenticate, Identity
from labkit.system.broker.protocol.authorization import Authorization
from labkit.system.broker.protocol.connection import ClientConnection
from labkit.system.broker.schemas.registry import Schemas
from labkit.system.broker.tenants import join_cluster
from labkit.system.broker.topics import BrokerTopic
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.store import NodeExistsError, NoNodeError
from labkit.system.model.errors import LabkitError
from labkit.system.topic.deletion import delete_marked, is_marked
from labkit.system.topic.names import (
    full_name,
    managed_ledger_path,
    namespace_of,
    partition_of,
    partitions_path,
    shorten,
    without_partition,
)
from labkit.system.topic.partitions import PartitionedTopic, read_partitioned_topic
from labkit.system.topic.producing.publishing import ProducerNames


class BrokerService:
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
        """`address` is the address that clients connect to. Without `authenticate`, every client is
        accepted. Without `authorization`, every client has all permissions. `log` is called for
        each request that is rejected because of a client error.
        """
        self.client = client
        self.store = client.store
        self.address = address
        self.config = config
        self.authenticate = authenticate
        self.authorization = authorization
        self.log = log
        self.max_message_size = config.max_message_size
        self.ownership = TopicOwnership(client.store, address, client.recorder)
        self.schemas = Schemas(client, config.managed_ledger)
        self.producer_names = ProducerNames(client.store)
        self.cluster = config.cluster_name
        """Set by `start` if the configuration does not name the cluster."""
        self.deleting: dict[str, None] = {}
        """Topics that must not be opened, because a request is deleting them."""
        self.connections: dict[ClientConnection, None] = {}
        self._topics: dict[str, asyncio.Task[BrokerTopic]] = {}
        self._is_closing = False
        self.ownership.when_lost(self._on_bundles_lost)

    async def start(self) -> None:
        """Join the cluster and register this broker."""
        self.cluster = await join_cluster(self.store, self.cluster, self.address)
        await self.ownership.register()

    async def close(self) -> None:
        # Set this first, so that no lookup sends a client to this broker.
        self._is_closing = True
        await self.ownership.unregister()
        await asyncio.gather(*map(self.unload_bundle, self.ownership.owned))

    def identify(self, method: str, data: bytes) -> Identity:
        return ANONYMOUS if self.authenticate is None else self.authenticate(method, data)

    async def check_permission(
        self, role: str, topic: str, *actions: str, subscription: str = ""
    ) -> None:
        if self.authorization is not None:
            name = full_topic_name(topic)
            await self.authorization.check_topic(role, name, actions, subscription)

    # Lookup

    async def look_up(self, topic: str, *, authoritative: bool) -> tuple[BrokerAddress, bool]:
        """Return the broker that serves the topic, and True. If no broker serves it, return the
        broker that should own it, and False.

        If `authoritative` is set and no broker owns the topic, this broker acquires it. Raises
        `BrokerError` if the namespace does not exist, and `BundleUnloadingError` while the topic's
        bundle is being unloaded.
        """
        name = full_topic_name(topic)
        owner = await self.ownership.owner_of(bundle_of(name))
        # The znode may have been created by an earlier process with the same address.
        is_own = owner is not None and owner.service_url == self.address.service_url
        if owner is not None and not is_own:
            return owner, True
        if self._is_closing:
            raise ServiceNotReadyError("this broker is shutting down")
        await check_namespace_exists(self.store, namespace_of(name))
        if not authoritative and not is_own:
            chosen = broker_for(name, await self.ownership.brokers() or [self.address])
            if chosen.service_url != self.address.service_url:
                return chosen, False
        return await self.ownership.acquire(name), True

    async def partition_count(self, topic: str, *, create: bool) -> int:
        """Return the number of partitions of a topic, or 0 if it is not partitioned.

        If `create` is set and the configuration allows it, create a missing topic whose name has a
        partition suffix, and create a missing partitioned topic if `defaultNumPartitions` is above
        0. Any other missing topic is created when a client opens it. Raises `BrokerError` if the
        topic or its namespace does not exist.
        """
        name = full_topic_name(topic)
        create = create and self.config.allow_auto_topic_creation
        if partition_of(name) >= 0:
            if create and not await self._is_partition(name):
                await self.create(name)
            return 0
        with suppress(NoNodeError):
            return (await self._partitioned_topic(name)).count
        if await self._is_stored(name):
            return 0
        await check_namespace_exists(self.store, namespace_of(name))
        if not create:
            raise _no_topic_error(name)
        if count := self.config.default_num_partitions:
            with suppress(NodeExistsError):
                await self.store.create(partitions_path(name), PartitionedTopic(count).encode())
            return (await self._partitioned_topic(name)).count
        return 0

    async def create(self, name: str) -> None:
        """Create an empty topic, unless it already exists."""
        await check_namespace_exists(self.store, namespace_of(name))
        with suppress(NodeExistsError):
            await self.store.create(managed_ledger_path(name), b"")

    # Topics

    @property
    def topics(self) -> list[BrokerTopic]:
        opened = (self._topics[name] for name in sorted(self._topics))
        return [task.result() for task in opened if task.done() and task.exception() is None]

    async def topic(self, name: str) -> BrokerTopic:
        """Return the topic, after opening it if necessary.

        Raises `BrokerError` if another broker serves it or it must not be opened, and the same
        exceptions as `BrokerTopic.open`.
        """
        name = full_topic_name(name)
        await self._ensure_owned(name)
        if name in self.deleting:
            raise _being_deleted_error(name)
        opening = self._topics.get(name)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._open(name))
            self._topics[name] = opening
        # Other clients may be waiting for this task, so cancelling one must not interrupt it.
        topic = await asyncio.shield(opening)
        topic.check_open()
        return topic

    async def find_open_topic(self, name: str) -> BrokerTopic | None:
        """Return the topic if it is open. Raise `BrokerError` if another broker serves it."""
        await self._ensure_owned(name)
        opening = self._topics.get(name)
        if opening is not None:
            with suppress(LabkitError):
                return await asyncio.shield(opening)
        return None

    async def unload(self, name: str) -> None:
        """Close a topic. The next request reopens it."""
        opening = self._topics.get(name)
        if opening is None:
            return
        with suppress(LabkitError):  # Opening or closing failed; recovery will clean up.
            await (await asyncio.shield(opening)).close()
        self._forget(name, opening)

    async def unload_bundle(self, bundle: NamespaceBundle) -> None:
        """Close the bundle's topics, then release the bundle for other brokers to acquire."""
        # First, make lookups fail. Clients retry them until the bundle is released.
        await self.ownership.disable(bundle)
        await asyncio.gather(*map(self.unload, self._topics_of([bundle])))
        await self.ownership.release(bundle)

    async def _open(self, name: str) -> BrokerTopic:
        task = asyncio.current_task()
        assert task is not None
        try:
            await self._check_may_open(name)
            if await is_marked(self.store, name):
                await self.finish_deletion(name)
                await self._check_may_open(name)
            policies = await read_topic_policies(self.store, namespace_of(name), self.config)
            context = DispatchContext(
                name,
                self.client.wall_clock_ms,
                self.client.recorder,
                self.config.dispatcher_read_failure_backoff_initial_ms,
                self.config.dispatcher_read_failure_backoff_max_ms,
            )
            topic = await self.topic_class.open(
                self.client, policies, context, self._on_topic_ended
            )
        except BaseException:  # Cancellation also ends up here; the next request starts a new task.
            self._forget(name, task)
            raise
        # The session may have expired in the meantime, so another broker may now own the topic.
        if self._topics.get(name) is not task or not self.ownership.owns(name):
            topic.end(_not_served_error(name))
        else:
            self.client.recorder.record("topic.opened", topic=name)
        if topic.is_ended:
            self._forget(name, task)
        return topic

    async def check_exists(self, topic: str) -> None:
        """Raise `BrokerError` if the topic or partition does not exist."""
        name = full_topic_name(topic)
        if partition_of(name) < 0:
            await self.partition_count(name, create=False)
        elif not await self._is_partition(name) and not await self._is_stored(name):
            raise _no_topic_error(name)

    async def finish_deletion(self, name: str) -> None:
        if partition_of(name) < 0 and not await self.store.exists(partitions_path(name)):
            # A partitioned topic with the same name would share these schemas.
            await self.schemas.delete(name)
        await delete_marked(self.client, name)

    async def _ensure_owned(self, name: str) -> None:
        """Raise `BrokerError` unless this broker owns the topic's bundle, or can reacquire it."""
        if not self.ownership.owns(name) and not await self.ownership.reacquire(name):
            raise _not_served_error(name)

    async def _check_may_open(self, name: str) -> None:
        """Raise `BrokerError` if the topic does not exist and must not be created by opening it.

        A topic whose name has a partition suffix is never created this way, because the client may
        not have noticed that the partitioned topic was deleted.
        """
        if partition_of(name) >= 0 or not self.config.allow_auto_topic_creation:
            await self.check_exists(name)

    async def _is_stored(self, name: str) -> bool:
        return await self.store.exists(managed_ledger_path(name))

    async def _is_partition(self, name: str) -> bool:
        """Raise `BrokerError` if the topic has fewer partitions or is being deleted."""
        try:
            count = (await self._partitioned_topic(without_partition(name))).count
        except NoNodeError:
            return False
        if partition_of(name) >= count:
            raise TopicNotFoundError(f"{name} does not exist: the topic has {count} partitions")
        return True

    async def _partitioned_topic(self, name: str) -> PartitionedTopic:
        record, _ = await read_partitioned_topic(self.store, name)
        if record.is_being_deleted:
            raise _being_deleted_error(name)
        return record

    def _on_topic_ended(self, topic: BrokerTopic) -> None:
        task = self._topics.get(topic.name)
        if task is not None and task.done() and task.result() is topic:
            del self._topics[topic.name]

    def _on_bundles_lost(self, bundles: Sequence[NamespaceBundle]) -> None:
        error = ServiceNotReadyError("the broker's metadata session expired")
        for name in self._topics_of(bundles):
            task = self._topics.pop(name)
            if task.done() and task.exception() is None:
                task.result().end(error)

    def _topics_of(self, bundles: Sequence[NamespaceBundle]) -> list[str]:
        return [name for name in self._topics if bundle_of(name) in bundles]

    def _forget(self, name: str, task: "asyncio.Task[BrokerTopic]") -> None:
        if self._topics.get(name) is task:
            del self._topics[name]


def _not_served_error(name: str) -> BrokerError:
    return ServiceNotReadyError(f"this broker does not serve {name}: look it up again")


def _being_deleted_error(name: str) -> BrokerError:
    return ServiceNotReadyError(
        f"{name} is being deleted; if the deletion was interrupted, repeat it"
    )


def _no_topic_error(name: str) -> BrokerError:
    return TopicNotFoundError(f"topic {name} does not exist")


def full_topic_name(topic: str) -> str:
    """Raise `InvalidNameError` if the name is invalid, or `BrokerError` if it is non-persistent."""
    if topic.startswith("non-persistent://"):
        raise NotAllowedError(f"{shorten(topic)}: non-persistent topics are not supported")
    return full_name(topic)


def broker_for(topic: str, brokers: Sequence[BrokerAddress]) -> BrokerAddress:
    """Return the broker that should own a topic. Bundles are assigned round-robin."""
    bundle = bundle_of(topic)
    index = bundle.lower // (bundle.upper - bundle.lower)
    return brokers[(zlib.crc32(bundle.namespace.encode()) + index) % len(brokers)]
