"""Command-line options of a bookie, for tests of configuration files."""

from dataclasses import dataclass
from pathlib import Path


@dataclass
class Options:
    """A bookie's options; by default, the command line specifies only the configuration file."""

    id: str | None = None
    data: Path | None = None
    zookeeper: str | None = None
    port: int | None = None
    flush_interval_ms: int | None = None
    trace_from_start: bool = False
