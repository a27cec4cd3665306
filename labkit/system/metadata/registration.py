"""The bookies of a cluster: which ones exist, which are running, and where they listen.

A bookie counts as running while its ephemeral node exists. The node lists the bookie's endpoints.

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
# As in BookKeeper, `:-_` is a range of characters, which also allows `@`, `[` and some others.
_BOOKIE_ID = re.compile(r"[a-zA-Z0-9:-_.\-]+")
_ADDRESS = re.compile(r"(.*):(\d{1,5})")
"""A bookie id that is also the bookie's address."""
_MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class Endpoint:
    protocol: str
    host: str
    port: int


def check_bookie_id(bookie_id: str) -> None:
    """Raise `BKIncorrectParameterException` if BookKeeper would reject the id."""
    # "." and ".." are not valid names of znodes.
    is_reserved = bookie_id.lower() == READ_ONLY_NAME or bookie_id in (".", "..")
    if is_reserved or not _BOOKIE_ID.fullmatch(bookie_id):
        raise BKIncorrectParameterException(
            f"invalid bookie id {bookie_id!r}: letters, digits, '-', '_', '.' and ':' are allowed,"
            " and 'readonly', '.' and '..' are reserved"
        )


def encode_service_info(endpoints: list[Endpoint]) -> bytes:
    info = BookieServiceInfoFormat()
    for endpoint in endpoints:
        name = "bookie" if endpoint.protocol == BOOKIE_RPC else endpoint.protocol
        info.endpoints.add(
            id=name, port=endpoint.port, host=endpoint.host, protocol=endpoint.protocol
        )
    return info.SerializeToString(deterministic=True)


def decode_service_info(bookie_id: str, data: bytes) -> list[Endpoint]:
    """Return the endpoints in a registration. If it is empty, the bookie's id is its address.

    Raises `BKMetadataSerializationException`.
    """
    if data:
        try:
            info = BookieServiceInfoFormat.FromString(data)
        except DecodeError as error:
            raise BKMetadataSerializationException(
                f"the registration of {bookie_id} is corrupt: {error}"
            ) from None
        endpoints = [Endpoint(e.protocol, e.host, e.port) for e in info.endpoints]
    elif address := _ADDRESS.fullmatch(bookie_id):
        endpoints = [Endpoint(BOOKIE_RPC, address[1], int(address[2]))]
    else:
        raise BKMetadataSerializationException(
            f"the registration of {bookie_id} is empty, and its id is not host:port"
        )
    for endpoint in endpoints:
        if not 0 <= endpoint.port <= _MAX_PORT:
            raise BKMetadataSerializationException(
                f"the registration of {bookie_id} is invalid: there is no port {endpoint.port}"
            )
    return endpoints


async def register_bookie(
    store: MetadataStore, bookie_id: str, endpoints: list[Endpoint], *, read_only: bool = False
) -> None:
    """Register a bookie as writable or read-only until the session of `store` ends.

    The caller must have locked the bookie's directories. So if there is another registration, it
    was made by this process or a dead one, and is replaced immediately; BookKeeper waits until
    it expires.
    """
    location = store.location
    path, other = f"{location.available}/{bookie_id}", f"{location.read_only}/{bookie_id}"
    if read_only:
        path, other = other, path
    data = encode_service_info(endpoints)
    try:
        await store.create(path, data, ephemeral=True)
    except NodeExistsError:
        if not read_only:
            # Recreate the other node first, because one of the lists must always contain the
            # bookie.
            await _recreate(store, other, data)
        await _recreate(store, path, data)
    with suppress(NoNodeError):
        await store.delete(other)


async def _recreate(store: MetadataStore, path: str, data: bytes) -> None:
    # The node may no longer exist, because the session that owned it may have expired.
    with suppress(NoNodeError):
        await store.delete(path)
    await store.create(path, data, ephemeral=True)


async def writable_bookies(store: MetadataStore) -> list[str]:
    names = await _names(store, store.location.available)
    return [name for name in names if name != READ_ONLY_NAME]


async def all_bookies(store: MetadataStore) -> list[str]:
    """Return the sorted ids of all bookies that have a cookie."""
    return await _names(store, store.location.cookies)


async def _names(store: MetadataStore, folder: str) -> list[str]:
    try:
        return await store.children(folder)
    except NoNodeError:
        return []


async def find_endpoint(store: MetadataStore, bookie_id: str, protocol: str) -> Endpoint:
    """Raise `BKBookieHandleNotAvailableException` if the bookie has no registered endpoint for
    this protocol.
    """
    for folder in (store.location.available, store.location.read_only):
        try:
            data, _ = await store.get(f"{folder}/{bookie_id}")
        except NoNodeError:
            continue
        for endpoint in decode_service_info(bookie_id, data):
            if endpoint.protocol == protocol:
                return endpoint
    raise BKBookieHandleNotAvailableException(
        f"{bookie_id} is not registered with a {protocol} endpoint: it is down, or never existed"
    )
