"""Adds advice to the messages of operating system errors that name a path."""

import errno

_FAILING = (
    "the disk may be failing: see the kernel log (`dmesg`); if the disk is lost, decommission the"
    " bookie, and autorecovery will copy its ledgers"
)
_NOT_ALLOWED = "give the user that runs labkit read and write access"
_REMEDIES = {
    errno.ENOSPC: "free some space on that file system, then restart",
    errno.EDQUOT: "raise the quota or free some space, then restart",
    errno.EIO: _FAILING,
    errno.EROFS: "that file system is read-only: see the kernel log (`dmesg`) for the reason,"
    " and mount it writable",
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.EFBIG: "raise the file size limit (`ulimit -f`), or use a file system that supports"
    " larger files",
    errno.EMFILE: "raise the open-file limit (`ulimit -n`)",
    errno.ENFILE: "raise the system-wide open-file limit (`fs.file-max`)",
}


def with_advice(error: Exception) -> str:
    """Return the error's message, with advice if it is a common `OSError` that names a path."""
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{error}; {remedy}" if remedy else str(error)
