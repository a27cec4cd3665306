"""The topics that a broker serves, and the lookup of the others.

A topic is opened at the first client's request if this broker owns its bundle.  It is closed when
the broker gives up the bundle.  It ends at once when the broker's session with the metadata store
is lost, when another owner has fenced its ledgers, or when an add has failed; at the next client's
request the broker that owns it then opens it again.

In Pulsar: `broker/service/BrokerService.java`.
"""

import asyncio
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import ClassVar

from labkit.system.broker.config import BrokerConfig
from labkit.system.broker.dispatch.dispatcher import DispatchContext
from labkit.system.broker.errors import BrokerError, refused_names
from labkit.system.broker.policies import Policies, check_namespace_exists, read_policies
from labkit.system.broker.protocol.authentication import ANONYMOUS, Authenticate, Identity
from labkit.system.broker.protocol.authorization import Authorization
from labkit.system.broker.schemas.registry import Schemas
from labkit.system.broker.tenants import join_cluster
from labkit.system.broker.topics import BrokerTopic
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.store import NodeExistsError, NoNodeError
from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.topic.deletion import delete_marked, is_marked
from labkit.system.topic.names import (
    full_name,
    managed_ledger_path,
    namespace_of,
    partition_of,
    partitions_path,
    shortened,
)
from labkit.system.topic.ownership import BrokerAddress, NamespaceBundle, TopicOwnership, bundle_of
from labkit.system.topic.partitions import PartitionedTopic, read_partitioned_topic
from labkit.system.topic.producing.publishing import ProducerNames


class BrokerService:
    """Serves the topics of the bundles that it owns."""

    topic_class: ClassVar[type[BrokerTopic]] = BrokerTopic

    def __init__(
        self,
        client: BookKeeper,
        address: BrokerAddress,
        config: BrokerConfig,
        authenticate: Authenticate | None,
        authorization: Authorization | None,
        log: Callable[[str], None],
    ) -> None:
        """`address` is the one that clients connect to, in the form that they use.  Without
        `authenticate` all clients are let in; without `authorization` these may do everything.
        `log` takes a line for each refusal that is the client's mistake.
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
        """The name of the cluster, known when `start` has returned."""
        self.deleting: dict[str, None] = {}
        """Topics that are not opened here because a request is deleting them."""
        self._topics: dict[str, asyncio.Task[BrokerTopic]] = {}
        self._is_closing = False
        self.ownership.when_lost(self._lost)

    async def start(self) -> None:
        """Register, so that clients and other brokers find this one.

        Raises what `join_cluster` raises, and `MetadataUnavailableError`.
        """
        self.cluster = await join_cluster(self.store, self.cluster, self.address)
        await self.ownership.register()

    async def close(self) -> None:
        """Unregister, close all topics and give up their bundles."""
        # Before the topics close: no lookup may send a client to a broker that is leaving.
        self._is_closing = True
        await self.ownership.unregister()
        await asyncio.gather(*map(self.unload_bundle, self.ownership.owned))

    def identify(self, method: str, data: bytes) -> Identity:
        """The client's identity, by these credentials.  Raises `BrokerError` for wrong ones."""
        return ANONYMOUS if self.authenticate is None else self.authenticate(method, data)

    async def check_may(self, role: str, topic: str, *actions: str, subscription: str = "") -> None:
        """Raises what `Authorization.check_topic` raises."""
        if self.authorization is not None:
            name = checked_name(topic)
            await self.authorization.check_topic(role, name, actions, subscription)

    # Where topics are

    async def find(self, topic: str, *, authoritative: bool) -> tuple[BrokerAddress, bool]:
        """The broker that serves a topic, and True; or one that would take it, and False.

        With `authoritative`, this broker takes the topic if no broker has it.  Raises
        `BrokerError` if its namespace does not exist, `BundleUnloadingError` and
        `MetadataUnavailableError`.
        """
        name = checked_name(topic)
        owner = await self.ownership.owner_of(name)
        # A node with this address may belong to a process that died here.
        mine = owner is not None and owner.service_url == self.address.service_url
        if owner is not None and not mine:
            return owner, True
        if self._is_closing:
            raise BrokerError(ServerError.ServiceNotReady, "this broker is being shut down")
        await check_namespace_exists(self.store, namespace_of(name))
        if not authoritative and not mine:
            chosen = broker_for(name, await self.ownership.brokers() or [self.address])
            if chosen.service_url != self.address.service_url:
                return chosen, False
        return await self.ownership.acquire(name), True

    async def partition_count(self, topic: str, *, create: bool) -> int:
        """How many partitions a topic has; 0: it is not partitioned.

        With `create` a missing topic is created, if the configuration allows it.  Raises
        `BrokerError` if there is no such topic and none is created.
        """
        name = checked_name(topic)
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
            raise _no_topic(name)
        if count := self.config.default_num_partitions:
            with suppress(NodeExistsError):
                await self.store.create(partitions_path(name), PartitionedTopic(count).encode())
            return (await self._partitioned_topic(name)).count
        return 0

    async def create(self, name: str) -> None:
        """Store an empty topic, unless there is one.

        Only so is a topic made that is named like a partition of a missing topic: opening does not
        make it, because the client may be one that has not noticed the deletion of all partitions.
        Raises `BrokerError` if the namespace does not exist.
        """
        await check_namespace_exists(self.store, namespace_of(name))
        with suppress(NodeExistsError):
            await self.store.create(managed_ledger_path(name), b"")

    # Topics

    @property
    def topics(self) -> list[BrokerTopic]:
        """The open topics, sorted by name."""
        opened = (self._topics[name] for name in sorted(self._topics))
        return [task.result() for task in opened if task.done() and task.exception() is None]

    async def topic(self, name: str) -> BrokerTopic:
        """A topic that this broker serves, opened if it is not.

        Raises `BrokerError` when another broker serves it, and what `BrokerTopic.open` raises.
        """
        name = checked_name(name)
        await self._check_owned(name)
        if name in self.deleting:
            raise _being_deleted(name)
        opening = self._topics.get(name)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._open(name))
            self._topics[name] = opening
        # Others wait for the same opening: a client that leaves must not cancel it for them.
        topic = await asyncio.shield(opening)
        topic.check_open()
        return topic

    async def opened_topic(self, name: str) -> BrokerTopic | None:
        """Return the topic if it is open here, or being opened and that succeeds.

        Raises `BrokerError` when another broker serves it.
        """
        await self._check_owned(name)
        opening = self._topics.get(name)
        if opening is not None:
            with suppress(LabkitError):
                return await asyncio.shield(opening)
        return None

    async def unload(self, name: str) -> None:
        """Close a topic; the next client's request opens it again."""
        opening = self._topics.get(name)
        if opening is None:
            return
        with suppress(LabkitError):  # It could not be opened, or closed: recovery will do it.
            await (await asyncio.shield(opening)).close()
        self._forget(name, opening)

    async def unload_bundle(self, bundle: NamespaceBundle) -> None:
        """Close the bundle's topics and release it to the broker that is asked next."""
        # Before the topics close: lookups fail at once, and clients retry until it is released.
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
            policies = await self.policies(namespace_of(name))
            context = DispatchContext(
                name,
                self.client.wall_clock_ms,
                self.client.recorder,
                self.config.dispatcher_read_failure_backoff_initial_ms,
                self.config.dispatcher_read_failure_backoff_max_ms,
            )
            topic = await self.topic_class.open(self.client, policies, context, self._ended)
        except BaseException:
            # A cancelled opening too: the next client starts another one.
            self._forget(name, task)
            raise
        # Opening takes a while: after a lost session another broker may own the topic by now.
        if self._topics.get(name) is not task or not self.ownership.owns(name):
            topic.end(_not_here(name))
        else:
            self.client.recorder.record("topic.opened", note=name)
        if topic.is_ended:
            self._forget(name, task)
        return topic

    async def policies(self, namespace: str) -> Policies:
        """The settings of a namespace's topics.  Raises `BrokerError` if it does not exist."""
        config = self.config
        defaults = Policies(
            config.broker_deduplication_enabled,
            config.ttl_duration_default_s * 1000,
            config.managed_ledger,
        )
        return await read_policies(self.store, namespace, defaults)

    async def check_exists(self, topic: str) -> None:
        """Raises `BrokerError` if there is no such topic, or it has no such partition."""
        name = checked_name(topic)
        if partition_of(name) < 0:
            await self.partition_count(name, create=False)
        elif not await self._is_partition(name) and not await self._is_stored(name):
            raise _no_topic(name)

    async def finish_deletion(self, name: str) -> None:
        """Delete all that is left of a topic whose deletion is decided.

        Raises what `delete_marked` raises.
        """
        if partition_of(name) < 0 and not await self.store.exists(partitions_path(name)):
            # A partitioned topic of that name keeps its schemas there.
            await self.schemas.delete(name)
        await delete_marked(self.client, name)

    async def _check_owned(self, name: str) -> None:
        if not self.ownership.owns(name) and not await self.ownership.reacquire(name):
            raise _not_here(name)

    async def _check_may_open(self, name: str) -> None:
        """Refuse a partition that its topic does not have, and a topic that must not be created."""
        if partition_of(name) >= 0 or not self.config.allow_auto_topic_creation:
            await self.check_exists(name)

    async def _is_stored(self, name: str) -> bool:
        return await self.store.exists(managed_ledger_path(name))

    async def _is_partition(self, name: str) -> bool:
        """Whether the name is a partition's.  Raises `BrokerError` if its topic has fewer, or is
        being deleted.
        """
        partition = partition_of(name)
        if partition < 0:
            return False
        whole = name.removesuffix(f"-partition-{partition}")
        try:
            count = (await self._partitioned_topic(whole)).count
        except NoNodeError:
            return False
        if partition >= count:
            raise BrokerError(
                ServerError.TopicNotFound, f"{whole} has {count} partitions, from 0 on"
            )
        return True

    async def _partitioned_topic(self, name: str) -> PartitionedTopic:
        """Raises `NoNodeError`, and `BrokerError` if the topic is being deleted."""
        record, _ = await read_partitioned_topic(self.store, name)
        if record.is_being_deleted:
            raise _being_deleted(name)
        return record

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


def _being_deleted(name: str) -> BrokerError:
    return BrokerError(
        ServerError.ServiceNotReady,
        f"{name} is being deleted; if that was interrupted, repeat the deletion",
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


def broker_for(topic: str, brokers: Sequence[BrokerAddress]) -> BrokerAddress:
    """The broker that should take a topic without an owner: a namespace's bundles go in turn."""
    bundle = bundle_of(topic)
    turn = bundle.lower // (bundle.upper - bundle.lower)
    return brokers[(zlib.crc32(bundle.namespace.encode()) + turn) % len(brokers)]
