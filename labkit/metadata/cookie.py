"""The cookie: which bookie of which cluster a set of directories belongs to.

The same text lies in each directory (`VERSION`) and in the metadata store.  A bookie starts only
when all agree: a disk that was lost and replaced by an empty one must not serve "no such entry" for
what it had acknowledged.

In BookKeeper: `bookie/Cookie.java`, `bookie/LegacyCookieValidation.java`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf import text_format

from labkit.metadata.cluster import ROOT
from labkit.metadata.store import MetadataStore, NoNodeError
from labkit.model.errors import InvalidCookieException
from labkit.model.proto.bookkeeper_pb2 import CookieFormat
from labkit.storage.disk import Disk

LAYOUT_VERSION = 5
_VERSION_FILE = "current/VERSION"


@dataclass(frozen=True, slots=True)
class Cookie:
    """A bookie's id, its directories as configured, and its cluster."""

    bookie_id: str
    journal_dir: str
    ledger_dirs: tuple[str, ...]
    instance_id: str

    def encode(self) -> bytes:
        """The cookie's text."""
        message = CookieFormat(
            bookieHost=self.bookie_id,
            journalDir=self.journal_dir,
            ledgerDirs="\t".join((str(len(self.ledger_dirs)), *self.ledger_dirs)),
            instanceId=self.instance_id,
        )
        return f"{LAYOUT_VERSION}\n{text_format.MessageToString(message, as_utf8=False)}".encode()

    @classmethod
    def decode(cls, data: bytes, where: str) -> "Cookie":
        """The inverse.  Raises `InvalidCookieException` naming `where` the text was found."""
        version, _, text = data.decode(errors="replace").partition("\n")
        if version not in ("4", "5"):
            raise InvalidCookieException(f"{where}: layout version {version!r}; 4 and 5 are known")
        try:
            message = text_format.Parse(text, CookieFormat())
        except text_format.ParseError as error:
            raise InvalidCookieException(f"{where}: the cookie is damaged: {error}") from None
        folders = tuple(message.ledgerDirs.split("\t")[1:])
        return cls(message.bookieHost, message.journalDir, folders, message.instanceId)


async def check_cookie(store: MetadataStore, cookie: Cookie, disks: Sequence[Disk]) -> None:
    """Let a bookie start only on its own, complete directories; stamp them at its first start.

    Raises `InvalidCookieException` saying which directory or node does not fit.
    """
    node = f"{ROOT}/cookies/{cookie.bookie_id}"
    try:
        registered, _ = await store.get(node)
    except NoNodeError:
        registered = None
    if registered is not None:
        _verify(Cookie.decode(registered, node), cookie, node)
    unstamped = [disk for disk in disks if not _verify_disk(disk, cookie)]
    if registered is not None and unstamped:
        raise InvalidCookieException(
            f"bookie {cookie.bookie_id} is known to the cluster, but {len(unstamped)} of its"
            f" {len(disks)} directories have no {_VERSION_FILE}: a disk is missing or was replaced"
        )
    if registered is None and any(disk.names("current") for disk in unstamped):
        raise InvalidCookieException(
            f"a directory of new bookie {cookie.bookie_id} is not empty and has no {_VERSION_FILE};"
            " give it an empty one"
        )
    if registered is None and len(unstamped) < len(disks):
        raise InvalidCookieException(
            f"the directories belong to bookie {cookie.bookie_id}, but the cluster does not know"
            f" it: {node} is missing; it is another cluster, or the node was deleted"
        )
    if registered is None:
        for disk in disks:
            _stamp(disk, cookie)
        await store.create(node, cookie.encode())


def _verify_disk(disk: Disk, cookie: Cookie) -> bool:
    """Whether the directory is stamped; raises if it is stamped for somebody else."""
    if not disk.exists(_VERSION_FILE):
        return False
    file = disk.open(_VERSION_FILE)
    data = file.read(0, file.size())
    file.close()
    _verify(Cookie.decode(data, _VERSION_FILE), cookie, _VERSION_FILE)
    return True


def _verify(found: Cookie, expected: Cookie, where: str) -> None:
    if found != expected:
        raise InvalidCookieException(
            f"{where} does not fit this bookie: found {found}, expected {expected}"
        )


def _stamp(disk: Disk, cookie: Cookie) -> None:
    file = disk.create(_VERSION_FILE)
    file.write(0, cookie.encode())
    file.sync()
    file.close()
    disk.sync_folder("current")
