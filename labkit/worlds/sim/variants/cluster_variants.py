"""Mistakes of what keeps a cluster, each one rule of the real code changed; `variants` gives them
their names.

The docstring of each is its rule.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn, cast

from labkit.system.autorecovery.fragments import Underreplicated
from labkit.system.autorecovery.ledger_view import LedgerView
from labkit.system.autorecovery.metadata_silence import MetadataSilence
from labkit.system.autorecovery.replicator import LedgerFragmentReplicator
from labkit.system.metadata.cookie import Cookie, check_cookie
from labkit.system.metadata.store import MetadataSession, MetadataStore
from labkit.system.model.errors import InvalidCookieException
from labkit.system.node.bookie import BookieConfig, BookieService
from labkit.system.node.ports import BookiePorts, ServerPorts
from labkit.system.node.registration import Registration
from labkit.system.storage.disk import Disk
from labkit.system.storage.store import LedgerStore

# Autorecovery


def audit_at_once(missing: Mapping[str, float], delay_s: float, now_s: float) -> float | None:
    """A bookie is taken for lost the moment it is gone, even while it is only restarting."""
    return now_s if missing else None


class SilenceIsAnAnswer(MetadataSilence):
    """A list of bookies is believed as soon as a store that hung goes on."""

    def fell_silent(self) -> None:
        """It does not matter."""


class MetadataBeforeCopy(LedgerFragmentReplicator):
    """The metadata names the new bookie first, and then it gets its copies."""

    async def replicate(self, ledger: LedgerView, short: Underreplicated) -> None:
        targets = await self.choose_targets(short)
        await self.publish(ledger.ledger_id, short, targets)
        await self.copy(ledger, short, targets)


# A bookie's start


async def start_on_any_disks(store: MetadataStore, cookie: Cookie, disks: Sequence[Disk]) -> None:
    """A bookie starts whatever its cookie says: on empty disks it has lost what it acknowledged."""
    with suppress(InvalidCookieException):
        await check_cookie(store, cookie, disks)


class _HearsLateOfLostSessions(Registration):
    """A bookie learns of lost sessions when it serves, not before it registers: one that is lost in
    between leaves it unregistered for ever.
    """

    def listen(self) -> None:
        """Not yet."""

    async def run(self) -> NoReturn:
        super().listen()
        await super().run()


class HearsLate(BookieService):
    """Such a bookie."""

    registration_class = _HearsLateOfLostSessions


# A bookie's garbage collection


class _NeverSyncs:
    """A session that does not wait for its server to catch up."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def sync(self) -> None:
        """Return at once."""


class TrustsItsServer(BookieService):
    """A bookie takes the list of ledgers as its server of the metadata store has it, which may be
    behind the others.
    """

    def __init__(
        self,
        store: LedgerStore,
        config: BookieConfig,
        server: ServerPorts,
        ports: BookiePorts,
        *rest: Any,
    ) -> None:
        unsynced = cast(MetadataSession, _NeverSyncs(ports.metadata))
        super().__init__(store, config, server, replace(ports, metadata=unsynced), *rest)
