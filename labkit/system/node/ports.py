"""The interfaces between a server and the world in which it runs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from labkit.system.autorecovery.random_source import Draw
from labkit.system.bookie.commit import RunInThread
from labkit.system.bookie.disk_monitor import Usages
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.metadata.store import MetadataSession, MetadataStore
from labkit.system.trace.recorder import Recorder


@dataclass(frozen=True, slots=True)
class ServerPorts:
    """The ports of every server.

    `begin_session` starts a session with the metadata store, and may raise
    `MetadataUnavailableError`. `new_client` creates a client that uses such a session.
    """

    node: str
    recorder: Recorder
    begin_session: Callable[[], Awaitable[MetadataSession]]
    new_client: Callable[[MetadataStore, ClientConfig], BookKeeper]
    draw: Draw
    wall_clock_ms: Callable[[], int]


@dataclass(frozen=True, slots=True)
class BookiePorts:
    """The additional ports of a bookie.

    `metadata` is the session that owns the bookie's registration, and `instance_id` is the cluster
    id in the bookie's cookie. `run_in_journal_threads` contains one runner per journal of the
    store. `run_in_flush_thread` runs flushes, garbage collection and listings. `disk_space` returns
    the total and free bytes of the ledger directories. `warn` logs a message for the operator.
    """

    metadata: MetadataStore
    instance_id: str
    run_in_journal_threads: Sequence[RunInThread]
    run_in_flush_thread: RunInThread
    disk_usages: Usages
    disk_space: Callable[[], tuple[int, int]]
    warn: Callable[[str], None]
