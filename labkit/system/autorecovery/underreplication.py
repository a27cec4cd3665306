"""Manages the marks of under-replicated ledgers, the locks of workers, and the shared settings.

`paths` lists the nodes. A mark is deleted only if its version has not changed since it was read
under the lock. So if a ledger is marked again during a repair, it is checked again.

In BookKeeper: `meta/ZkLedgerUnderreplicationManager.java`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from labkit.system.autorecovery.formats import (
    UnderreplicatedLedger,
    decode_check_time,
    decode_delay,
    decode_underreplicated,
    encode_check_time,
    encode_delay,
    encode_layout,
    encode_lock,
    encode_underreplicated,
    is_known_layout,
)
from labkit.system.autorecovery.paths import AutoRecoveryPaths
from labkit.system.autorecovery.random_source import Draw, shuffled
from labkit.system.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from labkit.system.metadata.watched_nodes import WatchedNodes
from labkit.system.model.errors import BKMetadataSerializationException, LabkitError

_MAX_NAMED = 1000
"""The maximum number of bookies in a mark, because a mark must fit into a node."""
_LEVELS = 4
"""The number of directory levels above a mark. They keep each list of children small enough for
a response.
"""
NEVER_MS = -1
"""Stands for the time of a check that has never been completed."""


class CompatibilityException(LabkitError):
    """The marks have a layout that labkit does not support."""


class UnavailableException(LabkitError):
    """Autorecovery is already in the requested state, or a required setting is missing."""


class LedgerUnderreplicationManager:
    """Marks and locks ledgers for one instance of autorecovery, whose session owns the locks.

    Invariant: while a ledger is locked here, no other instance holds its lock. If a call raises
    `MetadataUnavailableError`, it is unknown who holds the lock, and the session must end.
    """

    def __init__(
        self, store: MetadataStore, holder: str, draw: Draw, wall_clock_ms: Callable[[], int]
    ) -> None:
        """`holder` is stored in locks, to show people who holds them."""
        self.paths = AutoRecoveryPaths(store.location)
        self.store = store
        self._lock_data = encode_lock(holder)
        self._draw = draw
        self._wall_clock_ms = wall_clock_ms
        self._watched = WatchedNodes(store)
        self._held: dict[int, int | None] = {}
        """The version of each locked ledger's mark, as read under the lock (None after `lock`)."""

    async def prepare(self) -> None:
        """Create the parent nodes. Raises `CompatibilityException` if another layout exists."""
        for path, data in (
            (self.paths.layout, encode_layout()),
            (self.paths.ledgers, b""),
            (self.paths.locks, b""),
        ):
            with suppress(NodeExistsError):
                await self.store.create(path, data)
        # Another instance may have created the layout already.
        layout, _ = await self.store.get(self.paths.layout)
        if not is_known_layout(layout):
            raise CompatibilityException(
                f"{self.paths.layout} is {layout.decode(errors='replace')!r}; labkit supports only"
                f" {encode_layout().decode()!r}"
            )

    # Marks

    async def mark(self, ledger_id: int, bookies: Sequence[str]) -> bool:
        """Mark a ledger as under-replicated, because its copies on these bookies are missing.

        Pass no `bookies` if copies only need to be moved to other racks. Return whether the mark is
        new or lists more bookies than before.
        """
        path = self.paths.mark(ledger_id)
        while True:
            now_ms = self._wall_clock_ms()
            mark = UnderreplicatedLedger(tuple(bookies[:_MAX_NAMED]), now_ms)
            with suppress(NodeExistsError):
                await self.store.create(path, encode_underreplicated(mark))
                return True
            try:
                data, version = await self.store.get(path)
                try:
                    before = decode_underreplicated(data, ledger_id).bookies
                except BKMetadataSerializationException:
                    before = ()  # Replace the malformed mark.
                added = tuple(bookie for bookie in bookies if bookie not in before)
                if not added:
                    return False
                # Write the mark even if it has no room for another bookie: its new version makes
                # a worker that is repairing the ledger check it again.
                mark = UnderreplicatedLedger((before + added)[:_MAX_NAMED], now_ms)
                await self.store.set(path, encode_underreplicated(mark), version)
            except (NoNodeError, BadVersionError):
                continue  # The mark was deleted or changed in the meantime.
            return True

    async def find(self, ledger_id: int) -> UnderreplicatedLedger | None:
        try:
            data, _ = await self.store.get(self.paths.mark(ledger_id))
        except NoNodeError:
            return None
        return decode_underreplicated(data, ledger_id)

    async def ledgers(self) -> list[int]:
        """Return the marked ledgers in ascending order."""
        return sorted(await self._ledgers_below(self.paths.ledgers, 0))

    async def _ledgers_below(self, path: str, level: int) -> list[int]:
        try:
            names = await self.store.children(path)
        except NoNodeError:
            return []
        paths = [f"{path}/{name}" for name in names]
        if level == _LEVELS:
            return [n for n in map(self.paths.ledger_of, paths) if n is not None]
        return [n for each in paths for n in await self._ledgers_below(each, level + 1)]

    # Locks

    async def lock_any(self) -> int:
        """Wait for a marked ledger that nobody has locked, lock it and return its id.

        Visits marks in random order, so that workers rarely try the same ledger. In BookKeeper:
        `getLedgerToRereplicate`.
        """
        while True:
            await self.wait_until_enabled()
            # Get the count first, because marks may be created during the search.
            seen = self._watched.change_count
            ledger_id = await self._lock_any_below(self.paths.ledgers, 0)
            if ledger_id is not None:
                return ledger_id
            await self._watched.changed(seen)

    async def _lock_any_below(self, path: str, level: int) -> int | None:
        for name in shuffled(await self._watched.children(path) or (), self._draw):
            if level < _LEVELS:
                ledger_id = await self._lock_any_below(f"{path}/{name}", level + 1)
            else:
                ledger_id = await self._try_to_lock(f"{path}/{name}")
            if ledger_id is not None:
                return ledger_id
        return None

    async def _try_to_lock(self, mark: str) -> int | None:
        ledger_id, name = self.paths.ledger_of(mark), mark.rpartition("/")[2]
        if ledger_id is None or name in (await self._watched.children(self.paths.locks) or ()):
            return None
        if not await self.lock(ledger_id):
            return None
        # The previous holder may have deleted the mark before releasing the lock.
        try:
            _, version = await self.store.get(mark)
        except NoNodeError:
            await self.release(ledger_id)
            return None
        self._held[ledger_id] = version
        return ledger_id

    async def lock(self, ledger_id: int) -> bool:
        """Lock a ledger, whether it is marked or not. Return False if it is already locked."""
        try:
            await self.store.create(self.paths.lock(ledger_id), self._lock_data, ephemeral=True)
        except NodeExistsError:
            return False
        self._held[ledger_id] = None
        return True

    async def release(self, ledger_id: int) -> None:
        """Release the lock, if this instance holds it, but keep the ledger's mark."""
        if ledger_id in self._held:
            del self._held[ledger_id]
            with suppress(NoNodeError):
                await self.store.delete(self.paths.lock(ledger_id))

    async def unmark_and_release(self, ledger_id: int) -> bool:
        """Delete the mark of a ledger locked with `lock_any`, and release the lock.

        If the ledger has been marked again, keep the mark and return False. In BookKeeper:
        `markLedgerReplicated`.
        """
        version = self._held[ledger_id]
        assert version is not None, "the version of the mark was not read under the lock"
        is_done = True
        try:
            with suppress(NoNodeError):
                await self.store.delete(self.paths.mark(ledger_id), version)
                await self._prune(self.paths.mark(ledger_id))
        except BadVersionError:
            is_done = False
        await self.release(ledger_id)
        return is_done

    async def _prune(self, path: str) -> None:
        with suppress(NotEmptyError, NoNodeError):
            for _ in range(_LEVELS):
                path = path.rpartition("/")[0]
                await self.store.delete(path)

    # Shared settings

    async def disable(self) -> None:
        """Stop all instances from starting audits and repairs. A repair in progress is finished,
        but does not recover an open ledger. Raises `UnavailableException` if already disabled.
        """
        try:
            await self.store.create(self.paths.disable, b"")
        except NodeExistsError:
            raise UnavailableException("autorecovery is already disabled") from None

    async def enable(self) -> None:
        """Raise `UnavailableException` if autorecovery is already enabled."""
        try:
            await self.store.delete(self.paths.disable)
        except NoNodeError:
            raise UnavailableException("autorecovery is already enabled") from None

    async def is_enabled(self) -> bool:
        return not await self.store.exists(self.paths.disable)

    async def wait_until_enabled(self) -> None:
        while True:
            seen = self._watched.change_count
            if not await self._watched.exists(self.paths.disable):
                return
            await self._watched.changed(seen)

    async def init_lost_bookie_recovery_delay(self, delay_s: int) -> None:
        with suppress(NodeExistsError):
            await self.store.create(self.paths.lost_bookie_recovery_delay, encode_delay(delay_s))

    async def lost_bookie_recovery_delay_s(self) -> int:
        """Raise `UnavailableException` if the delay is not set."""
        try:
            data, _ = await self.store.get(self.paths.lost_bookie_recovery_delay)
        except NoNodeError:
            raise UnavailableException(
                "lostBookieRecoveryDelay is not set, because no auditor has ever been elected"
            ) from None
        return decode_delay(data)

    async def set_lost_bookie_recovery_delay(self, delay_s: int) -> None:
        """Set the delay. Setting it to 0, or to its current value, requests an audit."""
        await self._put(self.paths.lost_bookie_recovery_delay, encode_delay(delay_s))

    # Times of checks

    async def last_check_ms(self, path: str) -> int:
        """Return when a check was last completed, in ms since 1970, or `NEVER_MS`.

        `path` is one of the attributes of `AutoRecoveryPaths` whose names end with `_checked`.
        """
        try:
            data, _ = await self.store.get(path)
        except NoNodeError:
            return NEVER_MS
        try:
            return decode_check_time(data)
        except BKMetadataSerializationException:
            return NEVER_MS

    async def record_check(self, path: str) -> None:
        await self._put(path, encode_check_time(self._wall_clock_ms()))

    async def _put(self, path: str, data: bytes) -> None:
        try:
            await self.store.create(path, data)
        except NodeExistsError:
            await self.store.set(path, data, ANY_VERSION)
