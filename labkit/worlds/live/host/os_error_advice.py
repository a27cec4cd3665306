"""What to do about an error of the operating system that names a path."""

import errno

_FAILING = (
    "the disk may be failing: see the kernel's log (`dmesg`); a bookie whose disk is lost is"
    " decommissioned, and autorecovery copies its ledgers"
)
_NOT_ALLOWED = "let the user that runs labkit read and write there"
_REMEDIES = {
    errno.ENOSPC: "make room on that file system, then start again",
    errno.EDQUOT: "raise the quota, or make room within it, then start again",
    errno.EIO: _FAILING,
    errno.EROFS: "that file system is read-only: see the kernel's log (`dmesg`) for the reason,"
    " and mount it writable",
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.EFBIG: "raise the limit of a file's size (`ulimit -f`), or use a file system that takes"
    " larger files",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`)",
    errno.ENFILE: "raise the system's limit of open files (`fs.file-max`)",
}


def with_advice(error: Exception) -> str:
    """The error; for one of the operating system with a path, also what to do, if that is known."""
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{error}; {remedy}" if remedy else str(error)
