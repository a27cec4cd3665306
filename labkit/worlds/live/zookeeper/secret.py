"""The secret that prevents other users of the machine from using a cluster's ZooKeeper server.

    the server       serves only clients that authenticate with SASL (DIGEST-MD5)
    a cluster's own processes
                     receive the secret in the environment variable LABKIT_ZOOKEEPER_SECRET
    other processes of the same user, such as a shell or Spark's workers
                     read it from a file that is named after the server's address, in a private
                     directory below the temporary directory
    Java clients     read it from the server's `jaas.conf`, through the system property
                     java.security.auth.login.config

The secret never appears on a command line, which every user can see. Each server object generates
a new secret.

In ZooKeeper: `server/auth/DigestLoginModule.java`, `server/AuthenticationHelper.java`.
"""

import os
import stat
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from labkit.system.model.missing_part import MissingPart
from labkit.worlds.live.host.posix import own_user
from labkit.worlds.live.host.private import FOLDER_MODE, UNFINISHED, make_private, write_private

SECRET_VARIABLE = "LABKIT_ZOOKEEPER_SECRET"
_USER = "labkit"
_MAX_NAME_LENGTH = 200
_MAX_WRITE_S = 60.0
_LOGIN_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"


def login_configuration(secret: str) -> str:
    """Return the content of the JAAS file for the server and its Java clients."""
    return (
        f'Server {{\n  {_LOGIN_MODULE}\n  user_{_USER}="{secret}";\n}};\n'
        f'Client {{\n  {_LOGIN_MODULE}\n  username="{_USER}"\n  password="{secret}";\n}};\n'
    )


def known_secret(servers: str) -> str:
    """Return the secret of these servers, or "" if this process does not know it."""
    # labkit's servers, which publish secrets, do not run on Windows.
    may_be_published = sys.platform != "win32" and _is_private(_folder())
    published = _live_secret(_path(servers)) if may_be_published else None
    return published or os.environ.get(SECRET_VARIABLE, "")


def sasl_options(servers: str) -> dict[str, str] | None:
    """Return kazoo's `sasl_options` for these servers, or None if their secret is not known."""
    secret = known_secret(servers)
    if not secret:
        return None
    return {"mechanism": "DIGEST-MD5", "username": _USER, "password": secret}


def check_secrets_folder() -> Path:
    """Return the directory for this user's secrets. The directory need not exist yet.

    Raises `MissingPart` if the path is not a directory or belongs to another user.
    """
    folder = _folder()
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return folder
    if status.st_uid != own_user():
        why = "it belongs to another user"
    elif not stat.S_ISDIR(status.st_mode):
        why = "it is not a folder"
    else:
        return folder
    raise MissingPart(
        "ZooKeeper",
        f"its secret cannot be kept in {folder}: {why}",
        f"remove {folder}, or set TMPDIR",
    )


def publish(address: str, secret: str, pid: int) -> None:
    """Publish a server's secret to this user's processes, and delete the secrets of dead servers.

    `pid` is the server's process id. Raises `MissingPart` if the directory cannot be made private,
    or an `OSError`.
    """
    make_private(check_secrets_folder())
    folder = check_secrets_folder()  # Another user may have created it in the meantime.
    for path in folder.iterdir():
        if _live_secret(path) is None and not _is_being_written(path):
            path.unlink(missing_ok=True)
    write_private(_path(address), f"{pid} {secret}")


def _is_being_written(path: Path) -> bool:
    """Return whether another process may be about to publish this file."""
    if not path.name.startswith(UNFINISHED):
        return False
    try:
        return time.time() - path.stat().st_mtime < _MAX_WRITE_S
    except FileNotFoundError:
        return False


def withdraw(address: str, secret: str) -> None:
    """Delete a server's secret, unless another server has published its own at this address."""
    if _live_secret(_path(address)) in (secret, None):
        _path(address).unlink(missing_ok=True)


def _folder() -> Path:
    return Path(tempfile.gettempdir()) / f"labkit-{own_user()}"


def _path(address: str) -> Path:
    address = address.replace("localhost:", "127.0.0.1:")
    return _folder() / f"zookeeper-{quote(address, safe='')[:_MAX_NAME_LENGTH]}"


def _is_private(folder: Path) -> bool:
    """Return whether the directory belongs to this user and other users cannot enter it."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return False
    mode = (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode))
    return status.st_uid == own_user() and mode == (stat.S_IFDIR, FOLDER_MODE)


def _live_secret(path: Path) -> str | None:
    """Return the secret in a file, or None if its server is no longer running."""
    try:
        pid, secret = path.read_text(encoding="utf-8").split()
        os.kill(int(pid), 0)
    except (FileNotFoundError, ValueError, ProcessLookupError, PermissionError):
        return None
    return secret
