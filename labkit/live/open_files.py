"""How many connections a server has open files for.

A process that runs out of them cannot open an index file either, and a bookie takes that for a disk
that fails.
"""

from dataclasses import replace

from labkit.live.peers import PeerLimits
from labkit.live.posix import open_file_limit
from labkit.model.errors import BKIncorrectParameterException

_FEWEST_CONNECTIONS = 10


def within_open_files(limits: PeerLimits, others: int) -> PeerLimits:
    """The limits with no more connections than this process has open files for, beside `others`.

    Raises `BKIncorrectParameterException` when there are hardly any.
    """
    files = open_file_limit()
    connections = min(limits.most_connections, files - others)
    if connections < _FEWEST_CONNECTIONS:
        raise BKIncorrectParameterException(
            f"the operating system allows this process {files} open files, and it needs {others}"
            " beside those for its connections; raise the limit (ulimit -n), or lower openFileLimit"
        )
    return replace(limits, most_connections=connections)
