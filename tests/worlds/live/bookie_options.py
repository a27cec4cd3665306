"""A bookie's command line, for tests that read configuration files."""

from dataclasses import dataclass
from pathlib import Path


@dataclass
class Options:
    """The options; without values the command line names only the configuration."""

    id: str | None = None
    data: Path | None = None
    zookeeper: str | None = None
    port: int | None = None
    flush_interval_ms: int | None = None
    trace_from_start: bool = False
