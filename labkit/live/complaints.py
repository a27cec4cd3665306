"""Lines on standard error, which is often a log on the very disk whose lack of space they report:
a server goes on where it cannot write them.
"""

import sys


def complain(line: str) -> None:
    """Write the line to standard error, if that is possible."""
    stream = sys.stderr
    try:
        stream.write(f"{line}\n")
        stream.flush()
    except OSError:
        # A new one: the old one keeps the line, would fail again at the exit, and change its code.
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
