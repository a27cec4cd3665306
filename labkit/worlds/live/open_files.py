"""Limits a server's connections to the open files that its process may have.

A process without free file descriptors cannot open an index file either, and a bookie takes that
for a failing disk.
"""

from dataclasses import replace

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.live.host.posix import open_file_limit
from labkit.worlds.live.peers import PeerLimits

_FEWEST_CONNECTIONS = 10


def within_open_files(limits: PeerLimits, others: int) -> PeerLimits:
    """The limits, with no more connections than the limit on open files leaves beside `others`.

    Raises `BKIncorrectParameterException` when it leaves hardly any.
    """
    files = open_file_limit()
    connections = min(limits.most_connections, files - others)
    if connections < _FEWEST_CONNECTIONS:
        raise BKIncorrectParameterException(
            f"the operating system allows this process {files} open files, and it needs {others}"
            " beside those for its connections; raise the limit (ulimit -n), or lower openFileLimit"
        )
    return replace(limits, most_connections=connections)
