"""The cookie: which bookie of which cluster a set of directories belongs to.

The same text lies in each directory (`VERSION`) and in the metadata store.  A bookie starts only
when all agree: a disk that was lost and replaced by an empty one must not serve "no such entry" for
what it had acknowledged.

A first start stamps in three steps, so that an interrupted one can be resumed and is not taken for
a lost disk:

    1. VERSION.new into each directory   interrupted here: as if nothing was done
    2. the node in the metadata store    from now on each directory must have one of the two files
    3. VERSION.new becomes VERSION       interrupted here: what is missing is renamed

BookKeeper writes VERSION before the node; a first start that was interrupted there needs an
operator.

In BookKeeper: `bookie/Cookie.java`, `bookie/LegacyCookieValidation.java`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

from google.protobuf import text_format

from labkit.system.metadata.store import MetadataStore, NodeExistsError, NoNodeError
from labkit.system.model.errors import InvalidCookieException
from labkit.system.model.proto.bookkeeper_pb2 import CookieFormat
from labkit.system.storage.directories import refuse_other_storages
from labkit.system.storage.disk import Disk

LAYOUT_VERSION = 5
_FOLDER = "current"
_LONGEST = 1024 * 1024
"""Bytes of a cookie's file that are read at most; the longest cookie is far shorter."""
_VERSION_FILE = f"{_FOLDER}/VERSION"
_NEW_NAME = "VERSION.new"
_NEW_FILE = f"{_FOLDER}/{_NEW_NAME}"


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
            message = _parsed(text)
        except text_format.ParseError as error:
            raise InvalidCookieException(f"{where}: the cookie is damaged: {error}") from None
        if message.indexDirs not in ("", message.ledgerDirs):
            raise InvalidCookieException(
                f"{where}: a bookie with separate index directories; labkit looks for indexes in"
                " the ledger directories only, and would take its entries for absent"
            )
        folders = tuple(message.ledgerDirs.split("\t")[1:])
        return cls(message.bookieHost, message.journalDir, folders, message.instanceId)


@lru_cache(maxsize=64)
def _parsed(text: str) -> CookieFormat:
    """The cookie's fields.  At each start the same text is read from every directory."""
    return text_format.Parse(text, CookieFormat())


async def check_cookie(
    store: MetadataStore, cookie: Cookie, disks: Sequence[Disk], *, allow_expansion: bool = False
) -> None:
    """Let a bookie start only on its complete set of directories; stamp them at its first start.

    `disks` are the journal's and then, in the cookie's order, the ledger directories.  With
    `allow_expansion` ledger directories may be added that are empty.

    Raises `InvalidCookieException` saying which directory or node does not fit, and what
    `refuse_other_storages` raises.
    """
    refuse_other_storages(disks)
    registered = await read_cookie(store, cookie.bookie_id)
    if registered is not None and allow_expansion:
        await _expand(store, registered, cookie, disks)
        return
    if registered is not None:
        _verify(registered, cookie, _node(store, cookie.bookie_id))
    unstamped = [disk for disk in disks if not _is_stamped(disk, _VERSION_FILE, cookie)]
    if registered is None:
        _verify_first_start(cookie, disks, unstamped, _node(store, cookie.bookie_id))
        for disk in disks:
            _prepare(disk, cookie)
        await _register(store, cookie, disks)
    else:
        missing = [disk for disk in unstamped if not _is_stamped(disk, _NEW_FILE, cookie)]
        if missing:
            raise InvalidCookieException(
                f"bookie {cookie.bookie_id} is known to the cluster, but {len(missing)} of its"
                f" {len(disks)} directories have no {_VERSION_FILE}: a disk is missing or was"
                " replaced"
            )
    for disk in unstamped:
        disk.rename(_NEW_FILE, _VERSION_FILE)
        disk.sync_folder(_FOLDER)


async def _expand(
    store: MetadataStore, registered: Cookie, cookie: Cookie, disks: Sequence[Disk]
) -> None:
    """Stamp all directories for the larger cookie.

    An interruption leaves the former cookie or the new one in each directory that had one, and the
    next start with `allow_expansion` goes on.
    """
    node = _node(store, cookie.bookie_id)
    _verify_expands(registered, cookie, node)
    added = set(cookie.ledger_dirs) - set(registered.ledger_dirs)
    ledger_disks = zip(cookie.ledger_dirs, disks[-len(cookie.ledger_dirs) :], strict=True)
    new = [disk for path, disk in ledger_disks if path in added]
    for disk in disks:
        stamp = next((name for name in (_VERSION_FILE, _NEW_FILE) if disk.exists(name)), None)
        if stamp:
            _verify_expands(_read(disk, stamp), cookie, stamp)
        elif disk not in new or disk.names(_FOLDER):
            raise InvalidCookieException(
                f"a directory of bookie {cookie.bookie_id} has no {_VERSION_FILE}, and it is not a"
                " new and empty ledger directory: a disk is missing or was replaced"
            )
    for disk in disks:
        _prepare(disk, cookie)
    # After all directories have the new cookie, so that an interruption can be resumed.
    _, version = await store.get(node)
    await store.set(node, cookie.encode(), version)
    for disk in disks:
        disk.rename(_NEW_FILE, _VERSION_FILE)
        disk.sync_folder(_FOLDER)


async def read_cookie(store: MetadataStore, bookie_id: str) -> Cookie | None:
    """A bookie's cookie in the cluster; None if it has none.  Raises `InvalidCookieException`."""
    node = _node(store, bookie_id)
    try:
        data, _ = await store.get(node)
    except NoNodeError:
        return None
    return Cookie.decode(data, node)


async def delete_cookie(store: MetadataStore, bookie_id: str) -> None:
    """Remove a bookie from the cluster: with its old directories it cannot come back.

    Raises `NoNodeError` when the cluster does not know it.
    """
    await store.delete(_node(store, bookie_id))


def _node(store: MetadataStore, bookie_id: str) -> str:
    return f"{store.place.cookies}/{bookie_id}"


def _verify_first_start(
    cookie: Cookie, disks: Sequence[Disk], unstamped: list[Disk], node: str
) -> None:
    if any(name != _NEW_NAME for disk in unstamped for name in disk.names(_FOLDER)):
        raise InvalidCookieException(
            f"a directory of new bookie {cookie.bookie_id} is not empty and has no {_VERSION_FILE};"
            " give it an empty one"
        )
    if len(unstamped) < len(disks):
        raise InvalidCookieException(
            f"the directories belong to bookie {cookie.bookie_id}, but the cluster does not know"
            f" it: {node} is missing; it is another cluster, or the node was"
            " deleted"
        )


def _prepare(disk: Disk, cookie: Cookie) -> None:
    file = disk.create(_NEW_FILE)
    file.write(0, cookie.encode())
    file.sync()
    file.close()
    disk.sync_folder(_FOLDER)


async def _register(store: MetadataStore, cookie: Cookie, disks: Sequence[Disk]) -> None:
    try:
        await store.create(_node(store, cookie.bookie_id), cookie.encode())
    except NodeExistsError:
        for disk in disks:
            disk.remove(_NEW_FILE)
        raise InvalidCookieException(
            f"another bookie {cookie.bookie_id} joined the cluster at the same moment; choose"
            " another id"
        ) from None


def _is_stamped(disk: Disk, name: str, cookie: Cookie) -> bool:
    """Whether the directory has that file; raises if it is stamped for another bookie."""
    if not disk.exists(name):
        return False
    _verify(_read(disk, name), cookie, name)
    return True


def _read(disk: Disk, name: str) -> Cookie:
    file = disk.open(name)
    data = file.read(0, _LONGEST)
    file.close()
    return Cookie.decode(data, name)


def _verify_expands(found: Cookie, expected: Cookie, where: str) -> None:
    """As `_verify`, but the cookie found may lack some of the ledger directories."""
    if set(found.ledger_dirs) <= set(expected.ledger_dirs):
        found = replace(found, ledger_dirs=expected.ledger_dirs)
    _verify(found, expected, where)


def _verify(found: Cookie, expected: Cookie, where: str) -> None:
    if found != expected:
        there, here = asdict(found), asdict(expected)
        differences = [
            f"{name} is {there[name]!r} there and {here[name]!r} here"
            for name in here
            if there[name] != here[name]
        ]
        raise InvalidCookieException(
            f"{where} does not fit this bookie: {', '.join(differences)}; start each bookie on the"
            " directories, and in the cluster, that it began with (allowStorageExpansion=true adds"
            " empty ledger directories)"
        )
