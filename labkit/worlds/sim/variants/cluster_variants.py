"""Bugs in autorecovery, and in a bookie's startup and garbage collection.

Each bug changes one rule of the real code. `variants` lists the names of the bugs. The docstring of
each class or function describes the bug.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn, cast

from labkit.system.autorecovery.fragments import UnderreplicatedFragment
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
    """A bookie counts as lost as soon as it disappears, even if it is only restarting."""
    return now_s if missing else None


class IgnoresSilence(MetadataSilence):
    """After the metadata store has hung, the auditor trusts its list of bookies as soon as the
    store resumes.
    """

    def silence_ended(self) -> None:
        pass


class MetadataBeforeCopy(LedgerFragmentReplicator):
    """The worker writes the new bookie into the metadata before it has copied the entries."""

    async def replicate(self, ledger: LedgerView, underreplicated: UnderreplicatedFragment) -> None:
        targets = await self.choose_targets(underreplicated)
        await self.publish(ledger.ledger_id, underreplicated, targets)
        await self.copy(ledger, underreplicated, targets)


# A bookie's start


async def ignore_cookie_mismatch(
    store: MetadataStore, cookie: Cookie, disks: Sequence[Disk]
) -> None:
    """A bookie starts even if its cookie does not match.

    The bookie may then serve requests from empty disks, without the entries that it has
    acknowledged.
    """
    with suppress(InvalidCookieException):
        await check_cookie(store, cookie, disks)


class _ListensLate(Registration):
    """A bookie starts listening for expired sessions only after it has registered. If its session
    expires before that, the bookie remains unregistered forever.
    """

    def listen(self) -> None:
        pass

    async def run(self) -> NoReturn:
        super().listen()
        await super().run()


class NoticesExpiryLate(BookieService):
    """A bookie with the bug described in `_ListensLate`."""

    registration_class = _ListensLate


# A bookie's garbage collection


class _NeverSyncs:
    """A metadata session that does not wait for its server to catch up with the leader."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def sync(self) -> None:
        pass


class SkipsSync(BookieService):
    """A bookie trusts the ledger list from its metadata server, which may lag behind."""

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
