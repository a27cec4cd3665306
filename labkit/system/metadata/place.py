"""Where a cluster keeps its metadata: `metadataServiceUri` as a value.

    zk+hierarchical://host1:2181;host2:2181/chroot/ledgers
       |              |                    |      |
       |              |                    |      BookKeeper's nodes
       |              |                    Pulsar's nodes lie beside them, in the same folder
       |              ZooKeeper's servers
       the ledger manager: null (any that the cluster has), flat, hierarchical, longhierarchical

Two clusters share a ZooKeeper when their paths differ.  A session sees `chroot` as the root of the
tree, as with ZooKeeper's own chroot; all other paths in labkit are below it.

In BookKeeper: `meta/zk/ZKMetadataDriverBase.java`, `conf/AbstractConfiguration.java`
(`getMetadataServiceUri`).
"""

import re
from dataclasses import dataclass

from labkit.system.metadata.ledger_layout import LAYOUTS, LedgerLayout
from labkit.system.model.errors import BKIncorrectParameterException

DEFAULT_LEDGERS_ROOT = "/ledgers"
_SCHEME = "zk"
_ANY_LAYOUT = "null"
_OTHER_STORES = ("etcd", "memory", "metadata-store", "oxia", "rocksdb")
"""Stores that BookKeeper and Pulsar select by a prefix."""

_LAYOUT_NAMES = ("flat", "hierarchical", "longhierarchical")
_SERVER = r"(?:\[[0-9a-fA-F:.]+\]|[^\s/:,;\[\]]+)(?::\d+)?"
_SERVERS = re.compile(rf"{_SERVER}(?:,{_SERVER})*")
_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[^/\s]+)*")


@dataclass(frozen=True, slots=True)
class MetadataPlace:
    """The place of one cluster's metadata.

    `servers` is "host:port", several with commas.  `ledgers_root` is a path below `chroot`.  With a
    `layout` only a cluster that lays out its ledgers so is served.
    """

    servers: str
    chroot: str = ""
    ledgers_root: str = DEFAULT_LEDGERS_ROOT
    layout: LedgerLayout | None = None

    def __str__(self) -> str:
        """The place as `metadataServiceUri` has it."""
        kind = self.layout.name if self.layout else _ANY_LAYOUT
        servers = self.servers.replace(",", ";")
        return f"{_SCHEME}+{kind}://{servers}{self.chroot}{self.ledgers_root}"

    @property
    def available(self) -> str:
        """The folder of the bookies that take writes."""
        return f"{self.ledgers_root}/available"

    @property
    def read_only(self) -> str:
        """The folder of the bookies that live and only read."""
        return f"{self.available}/readonly"

    @property
    def cookies(self) -> str:
        """The folder of the bookies' cookies."""
        return f"{self.ledgers_root}/cookies"


def parse_place(text: str) -> MetadataPlace:
    """The place that a `metadataServiceUri` or ZooKeeper's "host:port,host:port/chroot" names.

    Raises `BKIncorrectParameterException` for any other text, and for any other store than
    ZooKeeper.
    """
    # Pulsar's own prefixes have one colon ("oxia:host:port"), as a host and its port have.
    if "://" in text or text.partition(":")[0] in _OTHER_STORES:
        return _parse_uri(text)
    servers, slash, chroot = text.partition("/")
    return MetadataPlace(_servers(servers, text), _path(slash + chroot, text))


def place_of_servers(
    servers: str, ledgers_root: str, layout: LedgerLayout | None = None
) -> MetadataPlace:
    """The place that BookKeeper's older keys `zkServers` and `zkLedgersRootPath` name.

    Raises `BKIncorrectParameterException`.
    """
    kind = layout.name if layout else _ANY_LAYOUT
    return _parse_uri(f"{_SCHEME}+{kind}://{servers.replace(',', ';')}{ledgers_root}")


def _parse_uri(text: str) -> MetadataPlace:
    scheme, _, rest = text.partition("://")
    store, plus, kind = scheme.lower().partition("+")
    if store != _SCHEME:
        raise BKIncorrectParameterException(
            f"{text!r}: labkit keeps metadata in ZooKeeper alone, not in another store and not"
            " through metadata-store; write zk+null://host:port/ledgers"
        )
    if plus and kind not in (_ANY_LAYOUT, *_LAYOUT_NAMES):
        raise BKIncorrectParameterException(
            f"{text!r} asks for the ledger manager {kind!r}; labkit has"
            f" {', '.join(_LAYOUT_NAMES)}, and null for the one that the cluster has"
        )
    servers, slash, path = rest.partition("/")
    chroot, _, name = _path(slash + path, text).rpartition("/")
    if not name:
        raise BKIncorrectParameterException(
            f"{text!r} names no root path for the ledgers; write {text.rstrip('/')}/ledgers"
        )
    return MetadataPlace(
        _servers(servers.replace(";", ","), text), chroot, f"/{name}", LAYOUTS.get(kind)
    )


def _servers(servers: str, text: str) -> str:
    servers = ",".join(server.strip() for server in servers.split(","))
    if not _SERVERS.fullmatch(servers):
        raise BKIncorrectParameterException(
            f"{text!r} is not a ZooKeeper address; write host:port, several with commas, or"
            " zk+null://host:port/ledgers"
        )
    return servers


def _path(path: str, text: str) -> str:
    path = path.rstrip("/")
    if not _PATH.fullmatch(path):
        raise BKIncorrectParameterException(f"{text!r}: {path!r} is not a path of ZooKeeper's")
    return path
