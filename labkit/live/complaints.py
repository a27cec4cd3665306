"""Lines on standard error, which is often a log on the very disk whose lack of space they report:
a server goes on where it cannot write them.
"""

import sys
from contextlib import suppress


def complain(line: str) -> None:
    """Write the line to standard error, if that is possible."""
    with suppress(OSError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
