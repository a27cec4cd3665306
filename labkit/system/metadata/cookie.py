"""Cookies, which identify the bookie and the cluster that a set of directories belongs to.

A bookie starts only if its cookie is the same in each directory (file `VERSION`) and in the
metadata store. Otherwise, a bookie whose disk was replaced by an empty one would respond "no such
entry" for entries that it had acknowledged.

When a bookie starts for the first time, it writes the cookie in three steps. If it is interrupted,
the next start resumes, and does not mistake the missing files for a lost disk:

    1. write VERSION.new to each directory    if interrupted, the next start starts over
    2. create the node in the metadata store  from now on, each directory must have one of the files
    3. rename VERSION.new to VERSION          if interrupted, the next start renames the others

BookKeeper writes VERSION before it creates the node. So if its first start is interrupted between
these two steps, an operator must intervene.

In BookKeeper: `bookie/Cookie.java`, `bookie/LegacyCookieValidation.java`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

from google.protobuf import text_format

from labkit.system.metadata.store import MetadataStore, NodeExistsError, NoNodeError
from labkit.system.model.errors import InvalidCookieException
from labkit.system.model.proto.bookkeeper_pb2 import CookieFormat
from labkit.system.storage.disk import Disk
from labkit.system.storage.other_storages import reject_other_storages

LAYOUT_VERSION = 5
_FOLDER = "current"
_MAX_SIZE = 1024 * 1024
"""The maximum number of bytes to read from a cookie file; real cookies are far shorter."""
_VERSION_FILE = f"{_FOLDER}/VERSION"
_NEW_NAME = "VERSION.new"
_NEW_FILE = f"{_FOLDER}/{_NEW_NAME}"


@dataclass(frozen=True, slots=True)
class Cookie:
    """A bookie's id, its directories (as written in its configuration), and its cluster's id."""

    bookie_id: str
    journal_dir: str
    ledger_dirs: tuple[str, ...]
    instance_id: str

    def encode(self) -> bytes:
        message = CookieFormat(
            bookieHost=self.bookie_id,
            journalDir=self.journal_dir,
            ledgerDirs="\t".join((str(len(self.ledger_dirs)), *self.ledger_dirs)),
            instanceId=self.instance_id,
        )
        return f"{LAYOUT_VERSION}\n{text_format.MessageToString(message, as_utf8=False)}".encode()

    @classmethod
    def decode(cls, data: bytes, where: str) -> "Cookie":
        """Raise `InvalidCookieException` if the cookie is corrupt or not supported. The message
        begins with `where`.
        """
        version, _, text = data.decode(errors="replace").partition("\n")
        if version not in ("4", "5"):
            raise InvalidCookieException(
                f"{where}: expected layout version 4 or 5, got {version!r}"
            )
        try:
            message = _parsed(text)
        except text_format.ParseError as error:
            raise InvalidCookieException(f"{where}: the cookie is corrupt: {error}") from None
        if message.indexDirs not in ("", message.ledgerDirs):
            raise InvalidCookieException(
                f"{where}: separate index directories are not supported; labkit looks for indexes"
                " only in the ledger directories and would not find this bookie's entries"
            )
        folders = tuple(message.ledgerDirs.split("\t")[1:])
        return cls(message.bookieHost, message.journalDir, folders, message.instanceId)


@lru_cache(maxsize=64)
def _parsed(text: str) -> CookieFormat:
    # The result is cached, because a starting bookie reads the same text from every directory.
    return text_format.Parse(text, CookieFormat())


async def check_cookie(
    store: MetadataStore, cookie: Cookie, disks: Sequence[Disk], *, allow_expansion: bool = False
) -> None:
    """Check that a bookie has all of its directories. On its first start, write the cookie to them.

    `disks` contains the journal directory, followed by the ledger directories in the order of the
    cookie. With `allow_expansion`, empty ledger directories may be added. Raises
    `InvalidCookieException` if a cookie does not match, and the same errors as
    `reject_other_storages`.
    """
    reject_other_storages(disks)
    registered = await read_cookie(store, cookie.bookie_id)
    node = _node(store, cookie.bookie_id)
    if registered is not None and allow_expansion:
        await _expand(store, registered, cookie, disks)
        return
    if registered is not None:
        _verify(registered, cookie, node)
    unstamped = [disk for disk in disks if not _is_stamped(disk, _VERSION_FILE, cookie)]
    if registered is None:
        _verify_first_start(cookie, disks, unstamped, node)
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
    """Replace the cookie in all directories with one that lists more ledger directories.

    If this is interrupted, the next start with `allow_expansion` resumes it.
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
                f"a directory of bookie {cookie.bookie_id} has no {_VERSION_FILE} and is not a new,"
                " empty ledger directory: a disk is missing or was replaced"
            )
    for disk in disks:
        _prepare(disk, cookie)
    # Change the node only after all directories have the new cookie. If this is interrupted, the
    # next start can then resume it.
    _, version = await store.get(node)
    await store.set(node, cookie.encode(), version)
    for disk in disks:
        disk.rename(_NEW_FILE, _VERSION_FILE)
        disk.sync_folder(_FOLDER)


async def read_cookie(store: MetadataStore, bookie_id: str) -> Cookie | None:
    """Return the cookie in the metadata store, if any. Raises `InvalidCookieException`."""
    node = _node(store, bookie_id)
    try:
        data, _ = await store.get(node)
    except NoNodeError:
        return None
    return Cookie.decode(data, node)


async def delete_cookie(store: MetadataStore, bookie_id: str) -> None:
    """Delete a bookie's cookie, so that it cannot restart on its old directories. Raises
    `NoNodeError`.
    """
    await store.delete(_node(store, bookie_id))


def _node(store: MetadataStore, bookie_id: str) -> str:
    return f"{store.location.cookies}/{bookie_id}"


def _verify_first_start(
    cookie: Cookie, disks: Sequence[Disk], unstamped: list[Disk], node: str
) -> None:
    if any(name != _NEW_NAME for disk in unstamped for name in disk.names(_FOLDER)):
        raise InvalidCookieException(
            f"a directory of the new bookie {cookie.bookie_id} is not empty and has no"
            f" {_VERSION_FILE}; use an empty directory"
        )
    if len(unstamped) < len(disks):
        raise InvalidCookieException(
            f"the directories belong to bookie {cookie.bookie_id}, but the cluster does not know"
            f" it: {node} is missing; this is another cluster, or the node was deleted"
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
            f"another bookie {cookie.bookie_id} joined the cluster at the same time; choose"
            " another id"
        ) from None


def _is_stamped(disk: Disk, name: str, cookie: Cookie) -> bool:
    if not disk.exists(name):
        return False
    _verify(_read(disk, name), cookie, name)
    return True


def _read(disk: Disk, name: str) -> Cookie:
    file = disk.open(name)
    data = file.read(0, _MAX_SIZE)
    file.close()
    return Cookie.decode(data, name)


def _verify_expands(found: Cookie, expected: Cookie, where: str) -> None:
    """Like `_verify`, but `found` may lack some of the ledger directories."""
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
            f"{where} does not match this bookie: {', '.join(differences)}; start each bookie with"
            " its original directories and cluster (allowStorageExpansion=true lets you add empty"
            " ledger directories)"
        )
