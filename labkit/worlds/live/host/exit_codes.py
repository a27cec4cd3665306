"""The exit codes of the command, and what a code says about a server that has ended."""

import signal

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_DISK_FAILED = 5  # As BookKeeper's bookie exits when its journal cannot be written.
EXIT_INTERRUPTED = 130  # As a shell says of a command that Ctrl-C ended.


def describe_exit(code: int) -> str:
    """The end of a process, for a reader; a negative code is the signal that ended it."""
    if code < 0:
        return f"has ended by {signal.Signals(-code).name}"
    why = " (its disk or network failed)" if code == EXIT_DISK_FAILED else ""
    return f"has ended with exit code {code}{why}"
