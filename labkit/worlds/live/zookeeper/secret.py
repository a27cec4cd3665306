"""The secret of a cluster's ZooKeeper: no other user of the machine can read or change a node.

    the server       serves only clients that prove by SASL (DIGEST-MD5) that they know it
    a cluster's own processes
                     get it in the environment, as LABKIT_ZOOKEEPER_SECRET
    other processes of the same user, such as a shell or Spark's workers
                     find it in a file named by the server's address, in a folder of the temporary
                     folder that only this user can enter
    Java's clients   find it in the server's `jaas.conf`: java.security.auth.login.config names it

The secret never appears on a command line, which every user can see.  Each server has a new one.

In ZooKeeper: `server/auth/DigestLoginModule.java`, `server/AuthenticationHelper.java`.
"""

import os
import secrets
import stat
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from labkit.system.model.missing_part import MissingPart
from labkit.worlds.live.host.posix import own_user
from labkit.worlds.live.host.private import FOLDER_MODE, make_private

SECRET_VARIABLE = "LABKIT_ZOOKEEPER_SECRET"
_USER = "labkit"
_LONGEST_NAME = 200
_UNFINISHED = "unfinished-"
_LONGEST_WRITE_S = 60.0
_LOGIN_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"


def new_secret() -> str:
    """A random secret, too long to guess."""
    return secrets.token_hex(32)


def login_configuration(secret: str) -> str:
    """The content of the JAAS file that the Java server and its Java clients read."""
    return (
        f'Server {{\n  {_LOGIN_MODULE}\n  user_{_USER}="{secret}";\n}};\n'
        f'Client {{\n  {_LOGIN_MODULE}\n  username="{_USER}"\n  password="{secret}";\n}};\n'
    )


def known_secret(servers: str) -> str:
    """The secret of these servers; empty if this process does not know it."""
    return _find(servers) or os.environ.get(SECRET_VARIABLE, "")


def sasl_options(servers: str) -> dict[str, str] | None:
    """kazoo's options for these servers; None if their secret is not known."""
    secret = known_secret(servers)
    if not secret:
        return None
    return {"mechanism": "DIGEST-MD5", "username": _USER, "password": secret}


def check_secrets_folder() -> Path:
    """The folder of this user's secrets, which need not exist yet.

    Raises `MissingPart` when something else, or another user's folder, is in its place.
    """
    folder = _folder()
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return folder
    if found.st_uid != own_user():
        raise _unfit(folder, "it belongs to another user")
    if not stat.S_ISDIR(found.st_mode):
        raise _unfit(folder, "it is not a folder")
    return folder


def publish(address: str, secret: str, pid: int) -> None:
    """Let this user's processes find the secret of the server with this address and process id.

    Raises `MissingPart` when the folder cannot be closed to other users, and `OSError`.
    """
    folder = check_secrets_folder()
    make_private(folder)
    if not _is_mine(folder):
        raise _unfit(folder, "another user has put it there")
    for path in folder.iterdir():
        if _live_secret(path) is None and not _is_being_written(path):
            path.unlink(missing_ok=True)
    fd, unfinished = tempfile.mkstemp(prefix=_UNFINISHED, dir=folder)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(f"{pid} {secret}")
    os.replace(unfinished, _path(address))


def _is_being_written(path: Path) -> bool:
    """Whether another process may be about to publish this file."""
    if not path.name.startswith(_UNFINISHED):
        return False
    try:
        return time.time() - path.stat().st_mtime < _LONGEST_WRITE_S
    except FileNotFoundError:
        return False


def withdraw(address: str) -> None:
    """Forget the secret of a server that ends."""
    _path(address).unlink(missing_ok=True)


def _find(servers: str) -> str | None:
    """The secret that this user's server at the address has published, if the server is alive."""
    if sys.platform == "win32":
        return None  # No labkit server runs there.
    return _live_secret(_path(servers)) if _is_mine(_folder()) else None


def _unfit(folder: Path, why: str) -> MissingPart:
    return MissingPart(
        "ZooKeeper",
        f"its secret cannot be kept in {folder}: {why}",
        f"remove {folder}, or set TMPDIR",
    )


def _folder() -> Path:
    return Path(tempfile.gettempdir()) / f"labkit-{own_user()}"


def _path(address: str) -> Path:
    address = address.replace("localhost:", "127.0.0.1:")
    return _folder() / f"zookeeper-{quote(address, safe='')[:_LONGEST_NAME]}"


def _is_mine(folder: Path) -> bool:
    """Whether the folder belongs to this user, and no other user can enter it."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    mode = (stat.S_IFMT(found.st_mode), stat.S_IMODE(found.st_mode))
    return found.st_uid == own_user() and mode == (stat.S_IFDIR, FOLDER_MODE)


def _live_secret(path: Path) -> str | None:
    """The secret in a file; None if its server ended without withdrawing it."""
    try:
        pid, secret = path.read_text(encoding="utf-8").split()
        os.kill(int(pid), 0)
    except (FileNotFoundError, ValueError, ProcessLookupError, PermissionError):
        return None
    return secret
