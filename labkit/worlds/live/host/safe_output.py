"""A server's lines on standard output and standard error, which are often logs on the very disk
whose lack of space they report: a server goes on where it cannot write them.
"""

import sys

from labkit.worlds.live.host.printable import printable

_KEPT = "\n\t"


def print_line(line: str) -> None:
    """Write the line to standard output, if that is possible."""
    _write("stdout", 1, line)


def print_error(line: str) -> None:
    """Write the line to standard error, if that is possible."""
    _write("stderr", 2, line)


def _write(name: str, descriptor: int, line: str) -> None:
    stream = getattr(sys, name)
    try:
        stream.write(f"{printable(line, kept=_KEPT)}\n")
        stream.flush()
    except OSError:
        # A new one: the old one keeps the line, would fail again at the exit, and change its code.
        new = open(descriptor, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        setattr(sys, name, new)
