"""Which bookies exist, which of them live, and where they listen.

A bookie counts as alive while its ephemeral node exists.  The node's content lists its endpoints;
the official clients look for protocol `bookie-rpc`.

In BookKeeper: `discover/ZKRegistrationManager.java`, `discover/BookieServiceInfoUtils.java`.
"""

import re
from contextlib import suppress
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from labkit.system.metadata.store import MetadataStore, NodeExistsError, NoNodeError
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKIncorrectParameterException,
    BKMetadataSerializationException,
)
from labkit.system.model.proto.bookkeeper_pb2 import BookieServiceInfoFormat

BOOKIE_RPC = "bookie-rpc"
TRACE = "labkit-trace"
READ_ONLY_NAME = "readonly"
_BOOKIE_ID = re.compile(r"[a-zA-Z0-9:-_.\-]+")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a service of a bookie listens."""

    protocol: str
    host: str
    port: int


def check_bookie_id(bookie_id: str) -> None:
    """Raise `BKIncorrectParameterException` for an id that BookKeeper would not take."""
    # Dots alone cannot name a znode.
    taken = bookie_id.lower() == READ_ONLY_NAME or bookie_id in (".", "..")
    if taken or not _BOOKIE_ID.fullmatch(bookie_id):
        raise BKIncorrectParameterException(
            f"{bookie_id!r} cannot be a bookie id: letters, digits, '-', '_', '.' and ':' are"
            " allowed, and 'readonly', '.' and '..' are taken"
        )


def encode_service_info(endpoints: list[Endpoint]) -> bytes:
    """A registration node's content."""
    info = BookieServiceInfoFormat()
    for endpoint in endpoints:
        name = "bookie" if endpoint.protocol == BOOKIE_RPC else endpoint.protocol
        info.endpoints.add(
            id=name, port=endpoint.port, host=endpoint.host, protocol=endpoint.protocol
        )
    return info.SerializeToString(deterministic=True)


def decode_service_info(bookie_id: str, data: bytes) -> list[Endpoint]:
    """The endpoints of a registration node; an empty node means that the id is host:port."""
    if not data:
        host, _, port = bookie_id.rpartition(":")
        if not port.isdecimal():
            raise BKMetadataSerializationException(
                f"the registration of {bookie_id} is empty, and its id is not host:port"
            )
        return [Endpoint(BOOKIE_RPC, host, int(port))]
    try:
        info = BookieServiceInfoFormat.FromString(data)
    except DecodeError as error:
        raise BKMetadataSerializationException(
            f"the registration of {bookie_id} is damaged: {error}"
        ) from None
    return [Endpoint(e.protocol, e.host, e.port) for e in info.endpoints]


async def register_bookie(
    store: MetadataStore, bookie_id: str, endpoints: list[Endpoint], *, read_only: bool = False
) -> None:
    """Announce a bookie, writable or not, for as long as the store's session lives.

    The caller must hold the bookie's directories for itself: a registration that is found is then
    its own, or that of a process that died, whose session has not run out yet.  It is replaced; no
    need to wait for its end, as BookKeeper does, which cannot know.  A new node comes before an old
    one goes, so that a client that reads both lists always finds the bookie.
    """
    path, other = f"{store.place.available}/{bookie_id}", f"{store.place.read_only}/{bookie_id}"
    if read_only:
        path, other = other, path
    data = encode_service_info(endpoints)
    try:
        await store.create(path, data, ephemeral=True)
    except NodeExistsError:
        if not read_only:
            # Listed as read-only while its old node is replaced, so that it is always in one list.
            await _create_again(store, other, data)
        await _create_again(store, path, data)
    with suppress(NoNodeError):
        await store.delete(other)


async def _create_again(store: MetadataStore, path: str, data: bytes) -> None:
    # The session that owned it may run out at this moment.
    with suppress(NoNodeError):
        await store.delete(path)
    await store.create(path, data, ephemeral=True)


async def writable_bookies(store: MetadataStore) -> list[str]:
    """Ids of the bookies that take writes, sorted."""
    return [name for name in await _names(store, store.place.available) if name != READ_ONLY_NAME]


async def read_only_bookies(store: MetadataStore) -> list[str]:
    """Ids of the bookies that live and take no writes, sorted."""
    return await _names(store, store.place.read_only)


async def all_bookies(store: MetadataStore) -> list[str]:
    """Ids of the bookies that belong to the cluster, alive or not, sorted: those with a cookie."""
    return await _names(store, store.place.cookies)


async def _names(store: MetadataStore, folder: str) -> list[str]:
    try:
        return await store.children(folder)
    except NoNodeError:
        return []


async def find_endpoint(store: MetadataStore, bookie_id: str, protocol: str) -> Endpoint:
    """The endpoint at which a live bookie offers that protocol.

    Raises `BKBookieHandleNotAvailableException` when the bookie is not registered.
    """
    for folder in (store.place.available, store.place.read_only):
        try:
            data, _ = await store.get(f"{folder}/{bookie_id}")
        except NoNodeError:
            continue
        for endpoint in decode_service_info(bookie_id, data):
            if endpoint.protocol == protocol:
                return endpoint
    raise BKBookieHandleNotAvailableException(
        f"{bookie_id} is not registered with a {protocol} endpoint: it is down, or was never there"
    )
