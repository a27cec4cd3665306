"""The exit codes of the labkit command, and a function that describes how a server exited."""

import signal

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_DISK_FAILED = 5  # The exit code of BookKeeper's bookies if they cannot write their journal.
EXIT_INTERRUPTED = 130  # The exit code that a shell reports for a command interrupted by Ctrl-C.


def describe_exit(code: int) -> str:
    """Describe how a process exited. A negative code is the number of the signal that ended it."""
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}
        return f"was terminated by {names.get(-code, f'signal {-code}')}"
    why = " (its disk or network failed)" if code == EXIT_DISK_FAILED else ""
    return f"exited with code {code}{why}"
