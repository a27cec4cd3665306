"""A scripted managed ledger, whose pushed entries wait until the test confirms or fails them."""

from collections.abc import Mapping, Sequence
from typing import cast

from labkit.system.model.errors import LabkitError
from labkit.system.topic.append_queue import PendingEntry, group_by_appender
from labkit.system.topic.chain.chain_reader import StoredEntry
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger

NAME = "persistent://public/default/t"


class PlayedCursor:
    """Remembers the last stored position and properties."""

    def __init__(self, mark_delete: Position, properties: Mapping[str, int]) -> None:
        self.mark_delete = mark_delete
        self.properties = dict(properties)

    def acknowledge_up_to(self, position: Position, properties: Mapping[str, int]) -> None:
        self.mark_delete, self.properties = position, dict(properties)


class PlayedLedger:
    """Ledger 7 of a topic; `entries` are the confirmed entries."""

    name = NAME

    def __init__(self, cursor: PlayedCursor | None = None) -> None:
        self.cursor = cursor or PlayedCursor((7, -1), {})
        self.entries: list[StoredEntry] = []
        self.batches: list[int] = []
        self.error: LabkitError | None = None
        self._pushed: list[PendingEntry] = []

    @property
    def real(self) -> ManagedLedger:
        """Return this object, typed as a `ManagedLedger`."""
        return cast(ManagedLedger, self)

    async def open_cursor(self, name: str, start: str) -> ManagedCursor:
        assert (name, start) == ("pulsar.dedup", "earliest")
        return cast(ManagedCursor, self.cursor)

    async def read(self, start: Position, max_entries: int, _: int) -> list[StoredEntry]:
        return [entry for entry in self.entries if entry.position >= start][:max_entries]

    async def append_entries(self, entries: Sequence[PendingEntry]) -> None:
        if self.error is not None:
            raise self.error
        self.batches.append(len(entries))
        self._pushed += entries

    def keep(self, *entries: bytes) -> None:
        """Store these entries after the existing ones."""
        for data in entries:
            self.entries.append(StoredEntry((7, len(self.entries)), data))

    def store(self, count: int = 1000) -> None:
        """Confirm the oldest `count` pushed entries."""
        stored = self._pushed[:count]
        del self._pushed[:count]
        for entry in stored:
            self.keep(entry.data)
            _, entry.entry_id = self.entries[-1].position
        for appender, entries in group_by_appender(stored):
            appender.entries_stored(7, entries)

    def abandon(self, error: LabkitError) -> None:
        """Fail all pushed entries and reject later ones."""
        self.error = error
        failed, self._pushed = self._pushed, []
        for appender, entries in group_by_appender(failed):
            appender.entries_failed(entries, error)
