"""Which broker serves a topic: bundles of topics, each owned through an ephemeral node.

    /loadbalance/brokers/<host:port>               a broker that lives, and where it listens
    /namespace/<tenant>/<namespace>/0x..._0x...    the owner of the topics whose names hash into
    that
                                                   range

The names of a namespace's topics lie on a ring of CRC32 values, cut into equal bundles.  A broker
that is asked for a topic without an owner takes its whole bundle; a second one learns of the first.

This is a hint, not a lock.  A broker whose session has expired believes for a while that it owns
what another has taken, and may be adding entries all the time.  What keeps the topic whole is that
each ledger has one writer: the next owner's recovery fences the last ledger, and the version of the
chain stops the next one (`managed_ledger`).  That does not depend on anything here, which only
keeps the brokers from fencing each other all the time.

Bundles are not split or moved to balance the load.

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

from labkit.system.metadata.store import (
    BadVersionError,
    MetadataStore,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from labkit.system.model.errors import BKMetadataSerializationException, LabkitError
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
"""The bounds of a namespace's bundles, as policies have them."""
BUNDLE_RANGES = ["_".join(pair) for pair in pairwise(BUNDLE_BOUNDARIES)]
"""The names of the bundles within their namespace."""
_RETRY_S = 0.2


class BundleUnloadingError(LabkitError):
    """The topic's owner is about to give it up: look it up again in a moment."""


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A broker: its name, which is `host:port` of its HTTP address, and where it listens.

    A URL that it does not have is "".
    """

    broker_id: str
    service_url: str
    service_url_tls: str = ""
    web_url: str = ""
    web_url_tls: str = ""


@dataclass(frozen=True, slots=True, order=True)
class NamespaceBundle:
    """The topics of a namespace (`tenant/namespace`) whose names hash to `lower` or more, and to
    less than `upper`; the last bundle has its `upper`, too.
    """

    namespace: str
    lower: int
    upper: int

    def __str__(self) -> str:
        return f"{self.namespace}/0x{self.lower:08x}_0x{self.upper:08x}"

    @property
    def path(self) -> str:
        """The node that names its owner."""
        return f"{_NAMESPACES}/{self}"


def bundle_of(topic: str) -> NamespaceBundle:
    """The bundle of a topic or partition, by its full name."""
    size = _RING // _BUNDLES_PER_NAMESPACE
    # By Pulsar's hash, so that its brokers would find the topic in the same bundle.
    lower = zlib.crc32(topic.encode()) // size * size
    return NamespaceBundle(namespace_of(topic), lower, min(lower + size, _RING - 1))


def encode_owner(owner: BrokerAddress, *, disabled: bool = False) -> bytes:
    """The content of a bundle's node; `disabled` while its owner is giving it up."""
    return _encode(
        nativeUrl=owner.service_url,
        nativeUrlTls=owner.service_url_tls,
        httpUrl=owner.web_url,
        httpUrlTls=owner.web_url_tls,
        disabled=disabled,
        advertisedListeners={},
    )


def decode_owner(data: bytes) -> tuple[BrokerAddress, bool]:
    """The inverse: the owner, and whether it is giving the bundle up.

    Raises `BKMetadataSerializationException`.
    """
    owner = _decode(data)
    keys = ("nativeUrl", "nativeUrlTls", "httpUrl", "httpUrlTls")
    service, service_tls, web, web_tls = (str(owner.get(key) or "") for key in keys)
    broker_id = (web or web_tls or service or service_tls).partition("://")[2]
    address = BrokerAddress(broker_id, service, service_tls, web, web_tls)
    return address, bool(owner.get("disabled"))


def encode_broker(broker: BrokerAddress) -> bytes:
    """The content of a broker's node, without the loads that Pulsar's brokers report there."""
    return _encode(
        webServiceUrl=broker.web_url,
        webServiceUrlTls=broker.web_url_tls,
        pulsarServiceUrl=broker.service_url,
        pulsarServiceUrlTls=broker.service_url_tls,
        persistentTopicsEnabled=True,
        nonPersistentTopicsEnabled=False,
    )


def decode_broker(broker_id: str, data: bytes) -> BrokerAddress:
    """The inverse.  Raises `BKMetadataSerializationException`."""
    broker = _decode(data)
    keys = ("pulsarServiceUrl", "pulsarServiceUrlTls", "webServiceUrl", "webServiceUrlTls")
    return BrokerAddress(broker_id, *(str(broker.get(key) or "") for key in keys))


def _encode(**fields: object) -> bytes:
    return json.dumps({key: value for key, value in fields.items() if value != ""}).encode()


def _decode(data: bytes) -> dict[str, object]:
    try:
        fields = json.loads(data)
    except ValueError as error:
        fields = error
    if not isinstance(fields, dict):
        raise BKMetadataSerializationException(f"a broker's address is not a JSON object: {fields}")
    return fields


class TopicOwnership:
    """What one broker owns, and how it learns what others own.

    Every call may raise `MetadataUnavailableError`.
    """

    def __init__(self, store: MetadataStore, me: BrokerAddress, recorder: Recorder) -> None:
        """The broker must hold its address for itself: a node that names it is its own, or that of
        a process that died there, whose session has not run out yet.
        """
        self._store = store
        self._me = me
        self._recorder = recorder
        self._owned: dict[NamespaceBundle, bool] = {}
        """True while it is served, False once it is being given up."""
        self._is_registered = False
        self._is_leaving = False
        self._sessions_lost = 0
        self._when_lost: list[Callable[[list[NamespaceBundle]], None]] = []
        self._turn = asyncio.Lock()
        self._registering: asyncio.Task[None] | None = None
        store.on_new_session(self._session_lost)

    @property
    def owned(self) -> list[NamespaceBundle]:
        """The bundles that this broker owns, as far as it knows."""
        return sorted(self._owned)

    def owns(self, topic: str) -> bool:
        """Whether this broker may begin to serve the topic now, as far as it knows."""
        return self._owned.get(bundle_of(topic), False)

    def when_lost(self, action: Callable[[list[NamespaceBundle]], None]) -> None:
        """Call `action` with the bundles that went with a lost session: stop serving them at once.

        Another broker may own the topics by now, and have fenced them.
        """
        self._when_lost.append(action)

    # Brokers

    async def register(self) -> None:
        """Announce this broker, for as long as its session lives, and in each later session."""
        self._is_registered = True
        await self._announce()

    async def _announce(self) -> None:
        # An old node belongs to a dead process's session, and would go when that session ends.
        path, data = f"{BROKERS}/{self._me.broker_id}", encode_broker(self._me)
        with suppress(NodeExistsError):
            await self._store.create(path, data, ephemeral=True)
            return
        with suppress(NoNodeError):
            await self._store.delete(path)
        await self._store.create(path, data, ephemeral=True)

    async def unregister(self) -> None:
        """Leave: from now on no client is sent here, and no bundle is acquired."""
        self._is_registered = False
        self._is_leaving = True
        async with self._turn:
            pass  # A bundle that is being acquired is owned now, and can be given up.
        with suppress(NoNodeError):
            await self._store.delete(f"{BROKERS}/{self._me.broker_id}")

    async def brokers(self) -> list[BrokerAddress]:
        """The brokers that live, by their names."""
        found: list[BrokerAddress] = []
        with suppress(NoNodeError):
            for broker_id in await self._store.children(BROKERS):
                with suppress(NoNodeError):  # It has just left.
                    data, _ = await self._store.get(f"{BROKERS}/{broker_id}")
                    found.append(decode_broker(broker_id, data))
        return found

    # Bundles

    async def owner_of(self, topic: str) -> BrokerAddress | None:
        """The broker that serves the topic; None if none does.

        Raises `BundleUnloadingError` while its owner is giving it up.
        """
        return await self.owner(bundle_of(topic))

    async def owner(self, bundle: NamespaceBundle) -> BrokerAddress | None:
        """The broker that serves the bundle, as `owner_of`."""
        if self._owned.get(bundle):
            return self._me
        try:
            data, _ = await self._store.get(bundle.path)
        except NoNodeError:
            return None
        return _served(bundle, *decode_owner(data))

    async def acquire(self, topic: str) -> BrokerAddress:
        """Own the topic's bundle, unless another broker does: who it is now.

        Raises `BundleUnloadingError` while its owner is giving it up.
        """
        bundle = bundle_of(topic)
        async with self._turn:
            while bundle not in self._owned:
                if self._is_leaving:
                    raise _unloading(bundle, self._me)
                # A session lost during the call takes the new node with it: then nothing is owned.
                session = self._sessions_lost
                if (other := await self._take(bundle)) is not None:
                    return other
                if session == self._sessions_lost:
                    self._owned[bundle] = True
                    self._recorder.record("bundle.acquired", note=str(bundle))
        return _served(bundle, self._me, not self._owned[bundle])

    async def reacquire(self, topic: str) -> bool:
        """Whether it owns the topic's bundle now, because the bundle's node names it: other brokers
        send clients here as long as they find the node of a process that died.
        """
        with suppress(BundleUnloadingError):
            owner = await self.owner_of(topic)
            if owner is not None and owner.service_url == self._me.service_url:
                return await self.acquire(topic) is self._me
        return False

    async def disable(self, bundle: NamespaceBundle) -> None:
        """The first step of giving a bundle up: lookups no longer lead here, and none makes this
        broker serve a topic of it again.  Then close its topics, then `release` it.
        """
        if bundle in self._owned:
            # First here, then in the store: from now on this broker answers no lookup with itself.
            self._owned[bundle] = False
            async with self._turn:
                if self._is_given_up(bundle):
                    await self._mark_disabled(bundle)

    async def release(self, bundle: NamespaceBundle) -> None:
        """The last step, after `disable`: at the next lookup the broker that is asked may take the
        bundle.
        """
        while True:
            async with self._turn:
                # The bundle may be lost with a session by now, and acquired again for others.
                if not self._is_given_up(bundle):
                    return
                with suppress(MetadataUnavailableError):
                    await self._delete_mine(bundle)
                    if self._owned.pop(bundle, None) is not None:
                        self._recorder.record("bundle.released", note=str(bundle))
                    return
            await asyncio.sleep(_RETRY_S)

    def _is_given_up(self, bundle: NamespaceBundle) -> bool:
        return self._owned.get(bundle) is False

    async def _mark_disabled(self, bundle: NamespaceBundle) -> None:
        # Where the node cannot be marked, clients redirected here are sent away again.
        with suppress(NoNodeError, BadVersionError, MetadataUnavailableError):
            _, version = await self._store.get(bundle.path)
            await self._store.set(bundle.path, encode_owner(self._me, disabled=True), version)

    async def _take(self, bundle: NamespaceBundle) -> BrokerAddress | None:
        """Create the bundle's node; or the broker that was quicker."""
        while True:
            with suppress(NodeExistsError):
                await self._store.create(bundle.path, encode_owner(self._me), ephemeral=True)
                return None
            # It may be of a session that will end: who died here had the same address.
            if (other := await self._delete_mine(bundle)) is not None:
                return _served(bundle, *other)

    async def _delete_mine(self, bundle: NamespaceBundle) -> tuple[BrokerAddress, bool] | None:
        """Remove the bundle's node, unless it is another broker's: what it says then."""
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
            self._recorder.record("bundle.lost", note=str(bundle))
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
        f"{bundle} is being given up by {owner.service_url}: look its topics up again"
    )
