"""What a server needs of the world that it runs in."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from labkit.system.autorecovery.random_port import Draw
from labkit.system.bookie.commit import RunBlocking
from labkit.system.bookie.disk_monitor import Usages
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.metadata.store import MetadataSession, MetadataStore
from labkit.system.trace.recorder import Recorder


@dataclass(frozen=True, slots=True)
class ServerPorts:
    """The ports of any server.

    `begin_session` begins a session with the metadata store and may raise
    `MetadataUnavailableError`; `new_client` makes a client that uses the session.
    """

    node: str
    recorder: Recorder
    begin_session: Callable[[], Awaitable[MetadataSession]]
    new_client: Callable[[MetadataStore, ClientConfig], BookKeeper]
    draw: Draw
    wall_clock_ms: Callable[[], int]


@dataclass(frozen=True, slots=True)
class BookiePorts:
    """The further ports of a bookie.

    `metadata` is the session that holds the bookie's registration, and `instance_id` the id of the
    cluster that its cookie names.  `write_journals` has one runner
    for each journal of the store, `write_entries` runs flushes and garbage collection.
    `disk_space` gives the ledger directories' total and free bytes.  `warn` takes a line for the
    bookie's operator.
    """

    metadata: MetadataStore
    instance_id: str
    write_journals: Sequence[RunBlocking]
    write_entries: RunBlocking
    disk_usages: Usages
    disk_space: Callable[[], tuple[int, int]]
    warn: Callable[[str], None]
