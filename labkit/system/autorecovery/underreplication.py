"""Which ledgers are short of copies, which worker repairs which, and autorecovery's switches.

The nodes are in `nodes`.  A mark is removed only if it is unchanged since its repair began: marking
the ledger again in the meantime changes the node's version, and the ledger is tested once more.

In BookKeeper: `meta/ZkLedgerUnderreplicationManager.java`.
"""

import re
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
from labkit.system.autorecovery.nodes import AutoRecoveryNodes
from labkit.system.autorecovery.random_port import Draw, shuffled
from labkit.system.autorecovery.watched_nodes import WatchedNodes
from labkit.system.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from labkit.system.model.errors import LabkitError

_MOST_NAMED = 1000
"""Bookies that a mark names, so that it fits into a node; the worker looks at all of a ledger."""
_LEVELS = 4
"""Levels of folders above a mark, so that no node has too many children for one answer."""
_NAME = re.compile(r"urL(\d+)")
NO_MARK = -1
NEVER_MS = -1
"""As the time of a check: there was none yet."""


class CompatibilityException(LabkitError):
    """The marks have a layout that labkit does not know."""


class UnavailableException(LabkitError):
    """Autorecovery is not in the state that the request needs."""


class LedgerUnderreplicationManager:
    """Marks and locks, for one instance of autorecovery, whose session holds the locks.

    Invariant: while a ledger is acquired here, no other instance has it.  A call that ends with
    `MetadataUnavailableError` leaves that in doubt: then the session must end.
    """

    def __init__(
        self,
        store: MetadataStore,
        holder: str,
        draw: Draw,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        """`holder` is what a lock says of its owner."""
        self.nodes = AutoRecoveryNodes(store.place)
        self.store = store
        self._lock = encode_lock(holder)
        self._draw = draw
        self._wall_clock_ms = wall_clock_ms
        self._watched = WatchedNodes(store)
        self._held: dict[int, int] = {}
        """The version that a ledger's mark had when its lock was taken; `NO_MARK` if that does not
        matter.
        """

    async def prepare(self) -> None:
        """Make the nodes that all others are below.  Raises `CompatibilityException`."""
        for path, data in (
            (self.nodes.layout, encode_layout()),
            (self.nodes.ledgers, b""),
            (self.nodes.locks, b""),
        ):
            with suppress(NodeExistsError):
                await self.store.create(path, data)
        # Read even if it was just created: another instance may have been first.
        layout, _ = await self.store.get(self.nodes.layout)
        if not is_known_layout(layout):
            raise CompatibilityException(
                f"{self.nodes.layout} says {layout.decode(errors='replace')!r}; labkit knows"
                f" {encode_layout().decode()!r} only"
            )

    # Marks

    async def mark(self, ledger_id: int, missing: Sequence[str]) -> bool:
        """Write that these bookies miss their copies; returns whether that is new."""
        path = self.nodes.mark(ledger_id)
        while True:
            now_ms = self._wall_clock_ms()
            with suppress(NodeExistsError):
                mark = UnderreplicatedLedger(tuple(missing[:_MOST_NAMED]), now_ms)
                await self.store.create(path, encode_underreplicated(mark))
                return True
            # A mark that is removed or changed in between: once more.
            with suppress(NoNodeError, BadVersionError):
                data, version = await self.store.get(path)
                before = decode_underreplicated(data).replicas
                news = tuple(bookie for bookie in missing if bookie not in before)
                if not news:
                    return False
                # Written even if there is no room for another name: the new version of the node
                # tells a worker that is repairing the ledger of this loss.
                mark = UnderreplicatedLedger((before + news)[:_MOST_NAMED], now_ms)
                await self.store.set(path, encode_underreplicated(mark), version)
                return True

    async def find(self, ledger_id: int) -> UnderreplicatedLedger | None:
        """The ledger's mark, if it has one."""
        try:
            data, _ = await self.store.get(self.nodes.mark(ledger_id))
        except NoNodeError:
            return None
        return decode_underreplicated(data)

    async def ledgers(self) -> list[int]:
        """Ids of all ledgers that are marked, ascending."""
        return sorted(await self._ledgers_below(self.nodes.ledgers, 0))

    async def _ledgers_below(self, path: str, level: int) -> list[int]:
        try:
            names = await self.store.children(path)
        except NoNodeError:
            return []
        if level == _LEVELS:
            return [int(match[1]) for name in names if (match := _NAME.fullmatch(name))]
        found: list[int] = []
        for name in names:
            found += await self._ledgers_below(f"{path}/{name}", level + 1)
        return found

    # Locks

    async def acquire(self) -> int:
        """Wait for a marked ledger that is not being repaired, and lock it.

        Which one is left to chance, so that several workers rarely choose the same.
        """
        while True:
            await self.wait_until_enabled()
            # Before the search: a mark that is made during it must not be missed.
            self._watched.changed.clear()
            ledger_id = await self._acquire_below(self.nodes.ledgers, 0)
            if ledger_id is not None:
                return ledger_id
            await self._watched.changed.wait()

    async def _acquire_below(self, path: str, level: int) -> int | None:
        for name in shuffled(await self._watched.children(path), self._draw):
            if level < _LEVELS:
                ledger_id = await self._acquire_below(f"{path}/{name}", level + 1)
            else:
                ledger_id = await self._try_to_lock(name)
            if ledger_id is not None:
                return ledger_id
        return None

    async def _try_to_lock(self, name: str) -> int | None:
        match = _NAME.fullmatch(name)
        if match is None or name in await self._watched.children(self.nodes.locks):
            return None
        ledger_id = int(match[1])
        if not await self.lock(ledger_id):
            return None
        # Read under the lock: before, the last holder might still remove the mark.
        try:
            _, version = await self.store.get(self.nodes.mark(ledger_id))
        except NoNodeError:
            await self.release(ledger_id)
            return None
        self._held[ledger_id] = version
        return ledger_id

    async def lock(self, ledger_id: int) -> bool:
        """Keep all others from repairing a ledger, marked or not, until `release`; False if one
        of them has the lock.
        """
        try:
            await self.store.create(self.nodes.lock(ledger_id), self._lock, ephemeral=True)
        except NodeExistsError:
            return False
        self._held[ledger_id] = NO_MARK
        return True

    async def release(self, ledger_id: int) -> None:
        """Release the lock of the ledger; it stays marked for the next worker."""
        if self._held.pop(ledger_id, None) is not None:
            with suppress(NoNodeError):
                await self.store.delete(self.nodes.lock(ledger_id))

    async def mark_replicated(self, ledger_id: int) -> bool:
        """The ledger has all its copies: remove mark and lock.

        False if the ledger was marked again since it was acquired: the mark stays.
        """
        is_done = True
        try:
            await self.store.delete(self.nodes.mark(ledger_id), self._held[ledger_id])
            await self._prune(self.nodes.mark(ledger_id))
        except BadVersionError:
            is_done = False
        except NoNodeError:
            pass
        await self.release(ledger_id)
        return is_done

    async def _prune(self, path: str) -> None:
        """Remove the folders above a mark that hold nothing else."""
        with suppress(NotEmptyError, NoNodeError):
            for _ in range(_LEVELS):
                path = path.rpartition("/")[0]
                await self.store.delete(path)

    # Switches

    async def disable(self) -> None:
        """Stop audits and repairs everywhere; what is being repaired is finished.

        Raises `UnavailableException` if it is so already.
        """
        try:
            await self.store.create(self.nodes.disable, b"")
        except NodeExistsError:
            raise UnavailableException("autorecovery is disabled already") from None

    async def enable(self) -> None:
        """Let autorecovery go on.  Raises `UnavailableException` if it was not disabled."""
        try:
            await self.store.delete(self.nodes.disable)
        except NoNodeError:
            raise UnavailableException("autorecovery is enabled already") from None

    async def is_enabled(self) -> bool:
        """Whether ledgers may be audited and repaired now."""
        return not await self.store.exists(self.nodes.disable)

    async def wait_until_enabled(self) -> None:
        """Return when autorecovery is enabled: at once, or after the next `enable`."""
        while True:
            self._watched.changed.clear()
            if not await self._watched.exists(self.nodes.disable):
                return
            await self._watched.changed.wait()

    async def init_lost_bookie_recovery_delay(self, delay_s: int) -> None:
        """Set the delay unless the metadata store has one: that one holds."""
        with suppress(NodeExistsError):
            await self.store.create(self.nodes.lost_bookie_recovery_delay, encode_delay(delay_s))

    async def lost_bookie_recovery_delay_s(self) -> int:
        """How long a bookie may be away.  Raises `UnavailableException` if that is not set."""
        try:
            data, _ = await self.store.get(self.nodes.lost_bookie_recovery_delay)
        except NoNodeError:
            raise UnavailableException(
                "there is no lostBookieRecoveryDelay: no auditor was ever elected"
            ) from None
        return decode_delay(data)

    async def set_lost_bookie_recovery_delay(self, delay_s: int) -> None:
        """Change the delay.  Setting it to what it is, or to 0, makes the auditor audit at once."""
        await self._put(self.nodes.lost_bookie_recovery_delay, encode_delay(delay_s))

    # Times of checks

    async def checked_ms(self, node: str) -> int:
        """When a check was made last, in ms since 1970, or `NEVER_MS`; `node` is one of
        `nodes.ledgers_checked`, `nodes.replicas_checked` and `nodes.placement_checked`.
        """
        try:
            data, _ = await self.store.get(node)
        except NoNodeError:
            return NEVER_MS
        return decode_check_time(data)

    async def set_checked(self, node: str) -> None:
        """The check of that node was made now."""
        await self._put(node, encode_check_time(self._wall_clock_ms()))

    async def _put(self, path: str, data: bytes) -> None:
        try:
            await self.store.create(path, data)
        except NodeExistsError:
            await self.store.set(path, data, ANY_VERSION)
