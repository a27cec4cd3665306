"""Prints a server's log lines, and ignores failures to write them.

Standard output and standard error are often redirected to a disk that becomes full, and this must
not stop the server.
"""

import sys

from labkit.worlds.live.host.printable import printable

_KEPT = "\n\t"


def print_line(line: str) -> None:
    _write("stdout", 1, line)


def print_error(line: str) -> None:
    _write("stderr", 2, line)


def _write(name: str, descriptor: int, line: str) -> None:
    stream = getattr(sys, name)
    try:
        stream.write(f"{printable(line, kept=_KEPT)}\n")
        stream.flush()
    except OSError:
        # Replace the stream, because the old one has buffered the line. Flushing it at exit would
        # fail again and change the exit code.
        new = open(descriptor, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        setattr(sys, name, new)
