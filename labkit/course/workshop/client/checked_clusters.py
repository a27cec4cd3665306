"""Clusters that check every request of the learner's client against the contract.

Some promises of `labkit.system.check` are broken only in rare runs, but a line such as "a new
segment starts at LastAddConfirmed + 1" can be checked with each request of every run.
"""

import asyncio
from typing import Any

from labkit.course.workshop.client import contract
from labkit.course.workshop.client.cluster import Cluster
from labkit.course.workshop.simulated_cluster import LineBroken
from labkit.system.client.striping import write_set
from labkit.system.model.entry import NO_ENTRY_ID, Entry
from labkit.system.model.errors import (
    PROVES_ABSENCE,
    BKException,
    BKLedgerFencedException,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState


class JudgedCluster(Cluster):
    def refuse(self, line: str, problem: str) -> None:
        """Report a violation of a line of the contract; only the first report in a run counts."""
        self.failed(LineBroken(line, problem, round(_now() * 1_000_000)))


def _now() -> float:
    return asyncio.get_running_loop().time()


class WritersCluster(JudgedCluster):
    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._last_confirmed = NO_ENTRY_ID
        self._confirmed_at = 0.0
        self._failed_bookies: list[str] = []
        self._closed_at: int | None = None

    def confirmed(self, entry_id: int) -> None:
        """Record that an add has returned."""
        if self._closed_at is not None and entry_id > self._closed_at:
            problem = f"the ledger is closed at entry {self._closed_at}; entry {entry_id} confirmed"
            self.refuse(contract.ENDS_AT, problem)
        self._last_confirmed = max(self._last_confirmed, entry_id)
        self._confirmed_at = _now()
        self.record("lac.advanced", entry_id)

    async def add_entry(self, bookie: str, entry: Entry, *, recovery: bool = False) -> None:
        try:
            await super().add_entry(bookie, entry, recovery=recovery)
        except BKLedgerFencedException:
            raise
        except BKException:
            self._failed_bookies.append(bookie)
            raise

    async def write_metadata(self, metadata: LedgerMetadata, version: int) -> int:
        changes = metadata.segments != self.segments
        asked_at, confirmed_before = _now(), self._last_confirmed
        if changes:
            self._judge_ensemble(metadata)
        version = await super().write_metadata(metadata, version)
        # An add returns in a later iteration of the event loop than the one in which it is
        # confirmed, but at the same simulated time. So every add that has returned by now was
        # confirmed before or during this write.
        last = self._last_confirmed
        if changes:
            first = metadata.segments[-1].first_entry_id
            if last > confirmed_before and self._confirmed_at > asked_at:
                problem = f"a segment from entry {first} was being stored; entry {last} confirmed"
                self.refuse(contract.WAITS, problem)
            elif first > last + 1:
                self._refuse_start(first, last)
        if metadata.state is LedgerState.CLOSED:
            self._closed_at = metadata.last_entry_id
            if metadata.last_entry_id != last:
                problem = f"LastAddConfirmed is {last}; closed at entry {metadata.last_entry_id}"
                self.refuse(contract.ENDS_AT, problem)
        return version

    def _judge_ensemble(self, metadata: LedgerMetadata) -> None:
        old, new = self.segments[-1].ensemble, metadata.segments[-1].ensemble
        first = metadata.segments[-1].first_entry_id
        if first <= self._last_confirmed:
            self._refuse_start(first, self._last_confirmed)
        pairs = enumerate(zip(old, new, strict=False))
        changed = [(index, *pair) for index, pair in pairs if pair[0] != pair[1]]
        for index, before, after in changed:
            change = f"index {index}: {before} is replaced by {after}"
            if before not in self._failed_bookies:
                self.refuse(contract.KEEPS, f"{change}, but no add to {before} has failed")
        for index, before, after in changed:
            change = f"index {index}: {before} is replaced by {after}"
            if after in old or after in self._failed_bookies:
                why = "is in the ensemble" if after in old else "has failed before"
                self.refuse(contract.OUTSIDE, f"{change}, but {after} {why}")

    def _refuse_start(self, first: int, last: int) -> None:
        self.refuse(contract.BEGINS, f"LastAddConfirmed is {last}; the segment starts at {first}")


class RecoverersCluster(JudgedCluster):
    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._state = LedgerState.OPEN
        self._fenced: set[str] = set()
        self._denied: dict[int, set[str]] = {}
        """By entry id: fenced bookies that do not have the entry."""
        self._denied_unfenced: dict[int, set[str]] = {}
        self._last_entries: dict[str, int] = {}
        self._first_written: int | None = None

    async def read_entry(self, bookie: str, entry_id: int, *, fence: bool = False) -> Entry:
        if self._state is LedgerState.OPEN:
            self.refuse(contract.MARKED, f"{bookie} is asked, and the metadata is OPEN")
        is_fenced = fence or bookie in self._fenced
        try:
            entry = await super().read_entry(bookie, entry_id, fence=fence)
        except PROVES_ABSENCE:
            denied = self._denied if is_fenced else self._denied_unfenced
            denied.setdefault(entry_id, set()).add(bookie)
            if entry_id == NO_ENTRY_ID and is_fenced:
                self._last_entries[bookie] = NO_ENTRY_ID
            self._fenced |= {bookie} if fence else set()
            raise
        if entry_id == NO_ENTRY_ID and is_fenced:
            self._last_entries[bookie] = entry.entry_id
        self._fenced |= {bookie} if fence else set()
        return entry

    async def add_entry(self, bookie: str, entry: Entry, *, recovery: bool = False) -> None:
        if not recovery:
            problem = f"entry {entry.entry_id} is sent to {bookie} without the recovery flag"
            self.refuse(contract.WRITTEN_BACK, problem)
        if self._first_written is None:
            self._first_written = entry.entry_id
        if entry.last_add_confirmed >= self._first_written:
            self.refuse(
                contract.CARRIES,
                f"entry {entry.entry_id} carries LastAddConfirmed {entry.last_add_confirmed}, but"
                f" entry {self._first_written} is not known to be confirmed",
            )
        await super().add_entry(bookie, entry, recovery=recovery)

    async def read_metadata(self) -> tuple[LedgerMetadata, int]:
        metadata, version = await super().read_metadata()
        self._state = metadata.state
        return metadata, version

    async def write_metadata(self, metadata: LedgerMetadata, version: int) -> int:
        if metadata.state is LedgerState.CLOSED:
            self._judge_end(metadata)
        version = await super().write_metadata(metadata, version)
        self._state = metadata.state
        return version

    def _judge_end(self, metadata: LedgerMetadata) -> None:
        size, quorum = metadata.ensemble_size, metadata.write_quorum
        last_ensemble = self.segments[-1].ensemble
        for first in range(size):
            names = [last_ensemble[index] for index in write_set(first, size, quorum)]
            unfenced = [name for name in names if name not in self._fenced]
            if len(unfenced) >= metadata.ack_quorum:
                problem = f"{', '.join(unfenced)} can still acknowledge an add (Qa ="
                self.refuse(contract.FENCES, f"{problem} {metadata.ack_quorum})")
                return
        after = metadata.last_entry_id + 1
        segments = reversed(self.segments)
        ensemble = next(each.ensemble for each in segments if each.first_entry_id <= after)
        names = [ensemble[index] for index in write_set(after, size, quorum)]
        denying = [name for name in names if self._has_denied(name, after)]
        needed = quorum - metadata.ack_quorum + 1
        if len(denying) >= needed:
            return
        problem = f"{', '.join(denying) or 'no bookie'} denied entry {after}; {needed} must"
        unfenced = [name for name in names if name in self._denied_unfenced.get(after, ())]
        if unfenced:
            problem += f"; {', '.join(unfenced)} denied it without being fenced"
        self.refuse(contract.FENCING_READS if unfenced else contract.PROVEN, problem)

    def _has_denied(self, bookie: str, entry_id: int) -> bool:
        denied = self._denied.get(entry_id, ())
        return bookie in denied or self._last_entries.get(bookie, entry_id) < entry_id
