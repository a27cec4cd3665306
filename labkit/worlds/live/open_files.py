"""Limits a server's connections so that the process stays below its open-file limit.

A process that runs out of file descriptors cannot open index files either. A bookie would mistake
this for a failing disk.
"""

from dataclasses import replace

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.live.host.posix import open_file_limit
from labkit.worlds.live.peers import PeerLimits

_MIN_CONNECTIONS = 10


def limit_connections(limits: PeerLimits, others: int) -> PeerLimits:
    """Return the limits, with `max_connections` reduced if the open-file limit requires it.

    `others` is the number of descriptors needed for everything else. Raises
    `BKIncorrectParameterException` if fewer than 10 connections would be left.
    """
    files = open_file_limit()
    connections = min(limits.max_connections, files - others)
    if connections < _MIN_CONNECTIONS:
        raise BKIncorrectParameterException(
            f"the operating system allows this process {files} open files, but it needs {others}"
            " in addition to those for its connections; raise the limit (ulimit -n), or lower"
            " openFileLimit"
        )
    return replace(limits, max_connections=connections)
