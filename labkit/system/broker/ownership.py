"""Topic ownership: each bundle of topics belongs to one broker, which holds an ephemeral node for
it.

    /loadbalance/brokers/<host:port>               a running broker and its addresses
    /namespace/<tenant>/<namespace>/0x..._0x...    the owner of the topics whose names hash into
                                                   this range

The topic names of a namespace are hashed with CRC32 onto a ring, which is divided into equal
bundles. If a broker receives a lookup for a topic without an owner, it acquires the topic's whole
bundle, and other brokers then redirect clients to it. Bundles are never split or moved.

Ownership is a hint, not a lock. A broker whose session has expired still believes for a while that
it owns bundles that another broker has acquired, and may keep adding entries. Topics stay
consistent because each ledger has a single writer. The next owner's recovery fences the last
ledger, and the chain's version prevents the old owner from adding another one (`managed_ledger`).
This module only keeps brokers from constantly fencing each other.

In Pulsar: `broker/namespace/OwnershipCache.java`, `common/naming/NamespaceBundleFactory.java`,
`metadata/coordination/impl/ResourceLockImpl.java`.
"""

import asyncio
import json
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from labkit.system.metadata.json_node import decode_json_object
from labkit.system.metadata.store import (
    BadVersionError,
    MetadataStore,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from labkit.system.model.errors import LabkitError
from labkit.system.topic.names import namespace_of
from labkit.system.trace.recorder import Recorder

BROKERS = "/loadbalance/brokers"
_NAMESPACES = "/namespace"
_RING = 1 << 32
_BUNDLES_PER_NAMESPACE = 4
BUNDLE_BOUNDARIES = [
    f"0x{min(at * _RING // _BUNDLES_PER_NAMESPACE, _RING - 1):08x}"
    for at in range(_BUNDLES_PER_NAMESPACE + 1)
]
"""The bounds of all bundles, as they are listed in the policies of a namespace."""
BUNDLE_RANGES = ["_".join(pair) for pair in pairwise(BUNDLE_BOUNDARIES)]
"""The names of the bundles of a namespace."""
_RETRY_S = 0.2
_DESCRIPTION = "a broker's address"


class BundleUnloadingError(LabkitError):
    """The owner is unloading the topic's bundle; repeat the lookup soon."""


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """`broker_id` is `host:port` of the HTTP address. A URL is empty if it is not configured."""

    broker_id: str
    service_url: str
    service_url_tls: str = ""
    web_url: str = ""
    web_url_tls: str = ""


@dataclass(frozen=True, slots=True, order=True)
class NamespaceBundle:
    """The topics of a namespace (`tenant/namespace`) with `lower` <= hash of the name < `upper`.
    The last bundle includes `upper`.
    """

    namespace: str
    lower: int
    upper: int

    def __str__(self) -> str:
        return f"{self.namespace}/0x{self.lower:08x}_0x{self.upper:08x}"

    @property
    def path(self) -> str:
        return f"{_NAMESPACES}/{self}"


def bundle_of(topic: str) -> NamespaceBundle:
    size = _RING // _BUNDLES_PER_NAMESPACE
    # Use Pulsar's hash, so that its brokers would put the topic in the same bundle.
    lower = zlib.crc32(topic.encode()) // size * size
    return NamespaceBundle(namespace_of(topic), lower, min(lower + size, _RING - 1))


def encode_owner(owner: BrokerAddress, *, disabled: bool = False) -> bytes:
    """Encode a bundle's node. `disabled` means that the owner is unloading the bundle."""
    return _encode(
        nativeUrl=owner.service_url,
        nativeUrlTls=owner.service_url_tls,
        httpUrl=owner.web_url,
        httpUrlTls=owner.web_url_tls,
        disabled=disabled,
        advertisedListeners={},
    )


def decode_owner(data: bytes) -> tuple[BrokerAddress, bool]:
    """Return the owner, and whether it is unloading the bundle."""
    owner = decode_json_object(data, _DESCRIPTION)
    keys = ("nativeUrl", "nativeUrlTls", "httpUrl", "httpUrlTls")
    service, service_tls, web, web_tls = (str(owner.get(key) or "") for key in keys)
    broker_id = (web or web_tls or service or service_tls).partition("://")[2]
    address = BrokerAddress(broker_id, service, service_tls, web, web_tls)
    return address, bool(owner.get("disabled"))


def encode_broker(broker: BrokerAddress) -> bytes:
    """Encode a broker's node, without the load report that Pulsar's brokers add."""
    return _encode(
        webServiceUrl=broker.web_url,
        webServiceUrlTls=broker.web_url_tls,
        pulsarServiceUrl=broker.service_url,
        pulsarServiceUrlTls=broker.service_url_tls,
        persistentTopicsEnabled=True,
        nonPersistentTopicsEnabled=False,
    )


def decode_broker(broker_id: str, data: bytes) -> BrokerAddress:
    """Raise `BKMetadataSerializationException` if the data is invalid."""
    broker = decode_json_object(data, _DESCRIPTION)
    keys = ("pulsarServiceUrl", "pulsarServiceUrlTls", "webServiceUrl", "webServiceUrlTls")
    return BrokerAddress(broker_id, *(str(broker.get(key) or "") for key in keys))


def _encode(**fields: object) -> bytes:
    return json.dumps({key: value for key, value in fields.items() if value != ""}).encode()


class TopicOwnership:
    """One broker's view of bundle ownership. Every call may raise `MetadataUnavailableError`."""

    def __init__(self, store: MetadataStore, me: BrokerAddress, recorder: Recorder) -> None:
        """No other running broker may use the address of `me`. Therefore, a node with that address
        belongs to this process, or to a dead process whose session has not expired yet.
        """
        self._store = store
        self._me = me
        self._recorder = recorder
        self._owned: dict[NamespaceBundle, bool] = {}
        """True while the bundle is served, False while it is being unloaded."""
        self._is_registered = False
        self._is_leaving = False
        self._sessions_lost = 0
        self._when_lost: list[Callable[[list[NamespaceBundle]], None]] = []
        self._lock = asyncio.Lock()
        self._registering: asyncio.Task[None] | None = None
        store.on_new_session(self._session_lost)

    @property
    def owned(self) -> list[NamespaceBundle]:
        """The bundles that this broker owns, is unloading, or has lost without noticing yet."""
        return sorted(self._owned)

    def owns(self, topic: str) -> bool:
        """Return whether this broker believes that it owns the bundle, and is not unloading it."""
        return self._owned.get(bundle_of(topic), False)

    def when_lost(self, action: Callable[[list[NamespaceBundle]], None]) -> None:
        """Call `action` with the lost bundles when the session expires. Stop serving them
        immediately, because another broker may have fenced their topics.
        """
        self._when_lost.append(action)

    # Brokers

    async def register(self) -> None:
        """Register this broker as running, now and in each later session."""
        self._is_registered = True
        await self._announce()

    async def _announce(self) -> None:
        # An existing node belongs to a dead process, and would disappear with its session.
        path, data = f"{BROKERS}/{self._me.broker_id}", encode_broker(self._me)
        with suppress(NodeExistsError):
            await self._store.create(path, data, ephemeral=True)
            return
        with suppress(NoNodeError):
            await self._store.delete(path)
        await self._store.create(path, data, ephemeral=True)

    async def unregister(self) -> None:
        """Leave the cluster: this broker gets no more clients, and acquires no more bundles."""
        self._is_registered = False
        self._is_leaving = True
        async with self._lock:
            pass  # Any bundle that was being acquired is now owned, so it can be unloaded.
        with suppress(NoNodeError):
            await self._store.delete(f"{BROKERS}/{self._me.broker_id}")

    async def brokers(self) -> list[BrokerAddress]:
        found: list[BrokerAddress] = []
        with suppress(NoNodeError):
            for broker_id in await self._store.children(BROKERS):
                with suppress(NoNodeError):  # The broker has just left.
                    data, _ = await self._store.get(f"{BROKERS}/{broker_id}")
                    found.append(decode_broker(broker_id, data))
        return found

    # Bundles

    async def owner_of(self, bundle: NamespaceBundle) -> BrokerAddress | None:
        """Raise `BundleUnloadingError` while the owner is unloading the bundle."""
        if self._owned.get(bundle):
            return self._me
        try:
            data, _ = await self._store.get(bundle.path)
        except NoNodeError:
            return None
        return _served(bundle, *decode_owner(data))

    async def acquire(self, topic: str) -> BrokerAddress:
        """Acquire the topic's bundle, unless another broker owns it. Return the owner."""
        bundle = bundle_of(topic)
        async with self._lock:
            while bundle not in self._owned:
                if self._is_leaving:
                    raise _unloading(bundle, self._me)
                # If the session expires during the call, the new node is deleted, so retry.
                session = self._sessions_lost
                if (other := await self._create_node(bundle)) is not None:
                    return other
                if session == self._sessions_lost:
                    self._owned[bundle] = True
                    self._recorder.record("bundle.acquired", bundle=str(bundle))
        return _served(bundle, self._me, not self._owned[bundle])

    async def reacquire(self, topic: str) -> bool:
        """Acquire the topic's bundle if a dead process with this broker's address left its node.
        Return whether this broker now owns the bundle.

        As long as such a node exists, other brokers redirect clients to this broker.
        """
        with suppress(BundleUnloadingError):
            owner = await self.owner_of(bundle_of(topic))
            if owner is not None and owner.service_url == self._me.service_url:
                return await self.acquire(topic) is self._me
        return False

    async def disable(self, bundle: NamespaceBundle) -> None:
        """Make lookups fail for the bundle's topics. The caller must then close these topics, and
        `release` the bundle.
        """
        if bundle in self._owned:
            # First of all, stop claiming to be the owner.
            self._owned[bundle] = False
            async with self._lock:
                if self._is_given_up(bundle):
                    await self._mark_disabled(bundle)

    async def release(self, bundle: NamespaceBundle) -> None:
        """Finish unloading a bundle after `disable`, so that any broker may acquire it."""
        while True:
            async with self._lock:
                # The bundle may have been lost with the session, and acquired again.
                if not self._is_given_up(bundle):
                    return
                with suppress(MetadataUnavailableError):
                    await self._delete_own_node(bundle)
                    if self._owned.pop(bundle, None) is not None:
                        self._recorder.record("bundle.released", bundle=str(bundle))
                    return
            await asyncio.sleep(_RETRY_S)

    def _is_given_up(self, bundle: NamespaceBundle) -> bool:
        return self._owned.get(bundle) is False

    async def _mark_disabled(self, bundle: NamespaceBundle) -> None:
        # If this fails, clients are still redirected to this broker, which rejects them.
        with suppress(NoNodeError, BadVersionError, MetadataUnavailableError):
            data, version = await self._store.get(bundle.path)
            owner, _ = decode_owner(data)
            # If the session has been lost in the meantime, the node may belong to another broker.
            if owner.service_url == self._me.service_url and self._is_given_up(bundle):
                await self._store.set(bundle.path, encode_owner(self._me, disabled=True), version)

    async def _create_node(self, bundle: NamespaceBundle) -> BrokerAddress | None:
        """Create the bundle's node, or return the address of another broker that owns it."""
        while True:
            with suppress(NodeExistsError):
                await self._store.create(bundle.path, encode_owner(self._me), ephemeral=True)
                return None
            # The node may belong to a dead process that had the same address.
            if (other := await self._delete_own_node(bundle)) is not None:
                return _served(bundle, *other)

    async def _delete_own_node(self, bundle: NamespaceBundle) -> tuple[BrokerAddress, bool] | None:
        """Delete the bundle's node, or return its content if another broker owns it."""
        with suppress(NoNodeError, BadVersionError):
            data, version = await self._store.get(bundle.path)
            owner, disabled = decode_owner(data)
            if owner.service_url != self._me.service_url:
                return owner, disabled
            await self._store.delete(bundle.path, version)
        return None

    def _session_lost(self) -> None:
        self._sessions_lost += 1
        lost, self._owned = self.owned, {}
        for bundle in lost:
            self._recorder.record("bundle.lost", bundle=str(bundle))
        if lost:
            for action in self._when_lost:
                action(lost)
        if self._is_registered:
            self._registering = asyncio.get_running_loop().create_task(self._register_again())

    async def _register_again(self) -> None:
        while self._is_registered:
            with suppress(MetadataUnavailableError):
                await self._announce()
                return
            await asyncio.sleep(_RETRY_S)


def _served(bundle: NamespaceBundle, owner: BrokerAddress, disabled: bool) -> BrokerAddress:
    if disabled:
        raise _unloading(bundle, owner)
    return owner


def _unloading(bundle: NamespaceBundle, owner: BrokerAddress) -> BundleUnloadingError:
    return BundleUnloadingError(
        f"{bundle} is being unloaded by {owner.service_url}: look its topics up again"
    )
