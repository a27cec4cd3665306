"""The location of a cluster's metadata, as specified by `metadataServiceUri`.

    zk+hierarchical://host1:2181;host2:2181/chroot/ledgers
       |              |                    |      |
       |              |                    |      the root of BookKeeper's nodes
       |              |                    the parent of BookKeeper's and Pulsar's nodes
       |              ZooKeeper's servers
       the ledger manager: null (accept the cluster's), flat, hierarchical, longhierarchical

Clusters can share a ZooKeeper ensemble if their paths differ. In the rest of labkit, paths are
relative to `chroot`.

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
"""URI prefixes that select other stores in BookKeeper and Pulsar."""

_LAYOUT_NAMES = ("flat", "hierarchical", "longhierarchical")
_SERVER = r"(?:\[[0-9a-fA-F:.]+\]|[^\s/:,;\[\]]+)(?::\d+)?"
_SERVERS = re.compile(rf"{_SERVER}(?:,{_SERVER})*")
_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[^/\s]+)*")


@dataclass(frozen=True, slots=True)
class MetadataLocation:
    """The ZooKeeper servers and the paths of a cluster's metadata.

    `servers` lists "host:port" items, separated by commas. `ledgers_root` is relative to `chroot`.
    If `layout` is set, only a cluster with this layout is accepted.
    """

    servers: str
    chroot: str = ""
    ledgers_root: str = DEFAULT_LEDGERS_ROOT
    layout: LedgerLayout | None = None

    def __str__(self) -> str:
        """Return the location as a `metadataServiceUri`."""
        kind = self.layout.name if self.layout else _ANY_LAYOUT
        servers = self.servers.replace(",", ";")
        return f"{_SCHEME}+{kind}://{servers}{self.chroot}{self.ledgers_root}"

    @property
    def available(self) -> str:
        """The parent node of the registrations of writable bookies."""
        return f"{self.ledgers_root}/available"

    @property
    def read_only(self) -> str:
        """The parent node of the registrations of read-only bookies."""
        return f"{self.available}/readonly"

    @property
    def cookies(self) -> str:
        return f"{self.ledgers_root}/cookies"


def parse_location(text: str) -> MetadataLocation:
    """Parse a `metadataServiceUri` or ZooKeeper's "host:port,host:port/chroot".

    Raises `BKIncorrectParameterException` for any other text, and for stores other than ZooKeeper.
    """
    # A Pulsar URI such as "oxia:host:port" looks like a list of servers.
    if "://" in text or text.partition(":")[0] in _OTHER_STORES:
        return _parse_uri(text)
    servers, slash, chroot = text.partition("/")
    return MetadataLocation(_servers(servers, text), _path(slash + chroot, text))


def location_of_servers(
    servers: str, ledgers_root: str, layout: LedgerLayout | None = None
) -> MetadataLocation:
    """Parse the values of BookKeeper's older keys `zkServers` and `zkLedgersRootPath`.

    Raises `BKIncorrectParameterException`.
    """
    kind = layout.name if layout else _ANY_LAYOUT
    return _parse_uri(f"{_SCHEME}+{kind}://{servers.replace(',', ';')}{ledgers_root}")


def _parse_uri(text: str) -> MetadataLocation:
    scheme, _, rest = text.partition("://")
    store, plus, kind = scheme.lower().partition("+")
    if store != _SCHEME:
        raise BKIncorrectParameterException(
            f"unsupported metadata store in {text!r}: labkit supports only ZooKeeper, and not"
            " through metadata-store; use zk+null://host:port/ledgers"
        )
    if plus and kind not in (_ANY_LAYOUT, *_LAYOUT_NAMES):
        raise BKIncorrectParameterException(
            f"unknown ledger manager {kind!r} in {text!r}; valid ledger managers:"
            f" {', '.join(_LAYOUT_NAMES)}, or null to accept the cluster's"
        )
    servers, slash, path = rest.partition("/")
    chroot, _, name = _path(slash + path, text).rpartition("/")
    if not name:
        raise BKIncorrectParameterException(
            f"the root path of the ledgers is missing from {text!r}; use {text.rstrip('/')}/ledgers"
        )
    return MetadataLocation(
        _servers(servers.replace(";", ","), text), chroot, f"/{name}", LAYOUTS.get(kind)
    )


def _servers(servers: str, text: str) -> str:
    servers = ",".join(server.strip() for server in servers.split(","))
    if not _SERVERS.fullmatch(servers):
        raise BKIncorrectParameterException(
            f"{text!r} is not a ZooKeeper address; expected host:port (several are separated by"
            " commas) or zk+null://host:port/ledgers"
        )
    return servers


def _path(path: str, text: str) -> str:
    path = path.rstrip("/")
    if not _PATH.fullmatch(path):
        raise BKIncorrectParameterException(f"{path!r} in {text!r} is not a valid ZooKeeper path")
    return path
