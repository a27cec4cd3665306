"""The rules for a writer on a `ManualCluster`: the contracts of steps 1, 2, 4 and 5."""

import asyncio
from dataclasses import dataclass

from labkit.course.checking.refused import Refused
from labkit.course.workshop.client import contract
from labkit.course.workshop.client.generated.manual_cluster import ManualCluster, Request
from labkit.course.workshop.client.generated.scripted_cluster import shown_segments, write_set_of
from labkit.system.model.entry import NO_ENTRY_ID, Entry
from labkit.system.model.errors import (
    BKException,
    BKLedgerFencedException,
    BKMetadataVersionException,
    BKNotEnoughBookiesException,
    LabkitError,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState


@dataclass(frozen=True, slots=True)
class _Add:
    """A call of `add`, with LastAddConfirmed at that time and the total size of the payloads so
    far.
    """

    payload: bytes
    last_add_confirmed: int
    length: int
    result: "asyncio.Task[int]"

    @property
    def is_confirmed(self) -> bool:
        return self.result.done() and self.error is None

    @property
    def error(self) -> BaseException | None:
        if self.result.cancelled():
            return asyncio.CancelledError()
        return self.result.exception() if self.result.done() else None


@dataclass(frozen=True, slots=True)
class _End:
    """The reason why the writer must have failed or closed the ledger.

    error: the error that pending adds must raise; if they do not, they violate `line`; no_more: the
    line that is violated if an entry is confirmed later
    """

    line: str
    error: type[LabkitError]
    no_more: str


class WriterRules:
    """Checks a writer after each move of a test.

    replaces: whether the writer must replace failed bookies (from step 4 on)
    announces: whether the writer's entries must carry LastAddConfirmed (from step 2 on)
    """

    def __init__(self, cluster: ManualCluster, *, replaces: bool, announces: bool) -> None:
        self.end: _End | None = None
        self._count_at_end = 0
        self.last_add_confirmed = NO_ENTRY_ID
        self._cluster, self._replaces, self._announces = cluster, replaces, announces
        self._first = self._metadata = cluster.metadata
        """The ledger's first metadata, and the metadata that the writer stored most recently."""
        self._members = {*self._first.segments[0].ensemble}
        """The bookies that have been in the ensemble."""
        self._unstored: set[str] = set()
        """The bookies that received an entry although no stored ensemble contains them."""
        self._adds: list[_Add] = []
        self._packed: dict[int, Entry] = {}
        self._requests: set[Request] = set()
        self._late: set[Request] = set()
        """Requests that the writer should have sent by now."""
        self._failed: set[str] = set()
        self._to_replace: set[str] = set()
        self._closing: asyncio.Task[None] | None = None
        self._others_change = self._is_fenced = self._was_changing = False
        self._was_storing: LedgerMetadata | None = None
        self._problem: Refused | None = None
        cluster.before_write = self._before_write

    # The test's moves

    def added(self, payload: bytes, result: "asyncio.Task[int]") -> int:
        """Record a call of `add`; return the id that its entry must have."""
        length = sum(len(each.payload) for each in self._adds) + len(payload)
        self._adds.append(_Add(payload, self.last_add_confirmed, length, result))
        return len(self._adds) - 1

    def can_do_without(self, bookie: str) -> bool:
        """Return whether all entries can still be confirmed if this bookie also fails."""
        return all(
            len({*self._write_set(entry_id)} - self._failed - {bookie}) >= self._first.ack_quorum
            for entry_id in range(self._first.ensemble_size)
        )

    def add_failed(self, request: Request) -> None:
        bookie, entry_id = request
        self._failed.add(bookie)
        if entry_id > self.last_add_confirmed:
            self._to_replace.add(bookie)

    def other_client_changed(self) -> None:
        self._others_change = True

    def bookie_fenced(self) -> None:
        self._is_fenced = True
        self._was_changing = self._cluster.is_accessed
        self._has_ended(contract.FENCED, BKLedgerFencedException, no_more=contract.FENCED)

    def close_called(self, closing: "asyncio.Task[None]") -> None:
        self._closing = closing
        self._has_ended(contract.PENDING_FAIL, LabkitError, no_more=contract.ENDS_AT)

    def _has_ended(self, line: str, error: type[LabkitError], no_more: str) -> None:
        self.end, self._count_at_end = _End(line, error, no_more), len(self._adds)

    @property
    def is_closing(self) -> bool:
        return self._closing is not None

    @property
    def may_sleep(self) -> bool:
        """Whether the writer may be sleeping now, because it is about to replace a failed
        bookie.
        """
        failed = self._replaces and self._failed & {*self._metadata.segments[-1].ensemble}
        return bool(failed) and self.end is None and not self._cluster.is_accessed

    # Checks

    def check(self) -> None:
        """Check what the writer has done since the last check. Raises `Refused`."""
        if self._problem is not None:
            raise self._problem
        self._check_stored()
        self._check_sent()
        self._check_confirmed()
        if self.end is None and not self._cluster.is_accessed:
            self._check_progress()
        if self.end is not None:
            self._check_unconfirmed(self.end)
        self._was_storing = self._cluster.storing

    def check_result(self) -> None:
        """Check for entries that the writer never sent, and check the result of `close`.

        Call this when no request is waiting any more. Raises `Refused` if a rule is broken.
        """
        for bookie, entry_id in sorted(self._late):
            if bookie in self._write_set(entry_id):  # The bookie may have been replaced since.
                line = contract.RESENT if self._is_new(bookie) else contract.WRITE_SET
                raise Refused(line, f"entry {entry_id} is never sent to {bookie}")
        if self.end is None:
            self._check_replaced()
        if self._closing is not None:
            self._check_closed(self._closing)

    def _check_closed(self, closing: "asyncio.Task[None]") -> None:
        stored, conflict = self._cluster.metadata, self._cluster.conflicts > 0
        if not closing.done():
            line = contract.CONFLICT if conflict else contract.PENDING_FAIL
            raise Refused(line, "`close` waits for ever")
        error = closing.exception()
        if error is not None and not isinstance(error, LabkitError):
            raise error
        if stored.state is not LedgerState.CLOSED:
            line = contract.CONFLICT if conflict else contract.ENDS_AT
            raise Refused(line, f"`close` has ended; the metadata are {stored.state.name}")
        is_own_end = stored.last_entry_id == self.last_add_confirmed
        how = f"`close` {f'raised {type(error).__name__}' if error else 'returned'}"
        if error is not None if is_own_end else not isinstance(error, BKMetadataVersionException):
            raise Refused(contract.OTHER_END, how)

    def _check_sent(self) -> None:
        for bookie, entry in self._cluster.take_sent():
            self._check_entry(bookie, entry)
            self._requests.add((bookie, entry.entry_id))
            if bookie in self._failed:
                self._to_replace.add(bookie)

    def _check_entry(self, bookie: str, entry: Entry) -> None:
        number, how = entry.entry_id, f"entry {entry.entry_id} is sent to {bookie}"
        if not 0 <= number < len(self._adds) or entry.payload != self._adds[number].payload:
            raise Refused(contract.RETURNS_ID, f"{how} with the payload {entry.payload!r}")
        add = self._adds[number]
        if number not in self._packed and entry.length != add.length:
            raise Refused(
                contract.LENGTH,
                f"{how} with length {entry.length}; its length is {add.length}",
            )
        if self._announces and entry.last_add_confirmed != add.last_add_confirmed:
            raise Refused(
                contract.ANNOUNCES,
                f"{how} with LastAddConfirmed {entry.last_add_confirmed}; when `add` was called, it"
                f" was {add.last_add_confirmed}",
            )
        has_changed = self._metadata.segments != self._first.segments
        line = contract.RESENT if has_changed else contract.WRITE_SET
        names = self._write_set(number)
        if self._is_replacement(bookie):
            self._unstored.add(bookie)
        elif bookie not in names:
            raise Refused(line, f"{how}; its write set is {', '.join(names)}")
        if (bookie, number) in self._requests and not self._is_new(bookie):
            raise Refused(line, f"{how} again")
        if (bookie, number) in self._late:
            raise Refused(self._held_up, f"{how} only now")
        packed = self._packed.setdefault(number, entry)
        if has_changed and entry != packed:
            raise Refused(contract.RESENT, f"{how} as {entry}; it was packed as {packed}")
        if number <= self.last_add_confirmed:
            raise Refused(contract.RESENT, f"{how} after it was confirmed")

    def _check_stored(self) -> None:
        for stored in self._cluster.take_stored():
            if self._others_change and stored.state is not LedgerState.CLOSED:
                line = contract.FENCED if self._is_fenced else contract.OTHERS_CHANGE
                raise Refused(line, f"the new segments: {shown_segments(stored)}")
            self._metadata = stored
            self._members.update(stored.segments[-1].ensemble)
            self._unstored -= self._members

    def _check_confirmed(self) -> None:
        new = self._newly_confirmed()
        if not new:
            return
        how = f"LastAddConfirmed was {self.last_add_confirmed}; now these adds return: {new}"
        if self.end is not None:
            is_later = new[-1] >= self._count_at_end
            raise Refused(self.end.line if is_later else self.end.no_more, how)
        storing = self._cluster.storing
        if storing is not None and storing is self._was_storing:
            raise Refused(contract.WAITS, how)
        for entry_id in new:
            if not self._is_complete(entry_id):
                raise Refused(self._line_of_early(entry_id), how)
        if new != list(self._unconfirmed())[: len(new)]:
            raise Refused(contract.IN_ORDER, how)
        self.last_add_confirmed = new[-1]

    def _line_of_early(self, entry_id: int) -> str:
        """Return the line of the contract that the writer broke by confirming the entry too
        early.
        """
        names = [bookie for bookie, each in self._cluster.acknowledged if each == entry_id]
        if len(names) < self._metadata.ack_quorum:
            return contract.AFTER_QA
        if any(map(self._is_replacement, names)):
            return contract.WAITS
        unsent = {(bookie, entry_id) for bookie in self._write_set(entry_id)} - self._requests
        return contract.RESENT if unsent else contract.COUNTS

    def _newly_confirmed(self) -> list[int]:
        new = [each for each in self._unconfirmed() if self._adds[each].is_confirmed]
        for entry_id in new:
            is_later = self.end is not None and entry_id >= self._count_at_end
            result = self._adds[entry_id].result.result()
            if result != entry_id and not is_later:
                how = f"the add of entry {entry_id} returns {result!r}"
                raise Refused(contract.RETURNS_ID, how)
        return new

    def _check_progress(self) -> None:
        """Check that the writer, which is waiting only for bookies, has done everything that it
        must have done by now.
        """
        if self._others_change and self._cluster.conflicts:
            self._has_ended(contract.OTHERS_CHANGE, BKException, no_more=contract.OTHERS_CHANGE)
            return
        if self._unstored:
            return  # The new bookie is not stored yet, so the writer may confirm too early.
        self._check_replaced()
        self._late |= {
            (bookie, entry_id)
            for entry_id in self._unconfirmed()
            for bookie in self._write_set(entry_id)
        } - self._requests
        unconfirmed = self._unconfirmed()
        if any(self._is_blocked(each) or self._was_given_up(each) for each in unconfirmed):
            self._has_ended(contract.FAILS, BKNotEnoughBookiesException, no_more=contract.FAILS)
            return
        for entry_id in self._unconfirmed():
            if self._adds[entry_id].result.done():
                unsent = any(self._is_new(bookie) for bookie, _ in self._late - self._requests)
                all_replaced = not self._to_replace & {*self._metadata.segments[-1].ensemble}
                line = contract.RESENT if unsent and all_replaced else self._held_up
                raise Refused(line, self._outcome(entry_id))
        if self._is_complete(self.last_add_confirmed + 1):
            raise Refused(self._held_up, self._outcome(self.last_add_confirmed + 1))

    @property
    def _held_up(self) -> str:
        """The line of the contract that a writer violates if it needlessly delays an add or lets it
        fail.
        """
        has_failed = self._replaces and self._failed
        return contract.CONTINUES if has_failed else contract.NOT_HELD_UP

    def _check_replaced(self) -> None:
        ensemble = self._metadata.segments[-1].ensemble
        left = sorted(self._to_replace & {*ensemble})
        spare = [each for each in self._cluster.writable if each not in {*ensemble, *self._failed}]
        if self._replaces and left and spare:
            how = f"{left[0]} is still in the ensemble: {shown_segments(self._metadata)}"
            raise Refused(contract.CONTINUES, how)

    def _check_unconfirmed(self, end: _End) -> None:
        for entry_id in self._unconfirmed():
            error = self._adds[entry_id].error
            if not isinstance(error, end.error):
                waits = self._is_fenced and not isinstance(error, LabkitError)
                raise Refused(contract.PENDING_FAIL if waits else end.line, self._outcome(entry_id))

    def _before_write(self, metadata: LedgerMetadata, version: int) -> None:
        # Report the problem later, because here the learner's code would catch the exception.
        try:
            if metadata.state is LedgerState.CLOSED:
                self._check_end(metadata, version)
            elif metadata.segments != self._metadata.segments:
                self._check_change(metadata)
        except Refused as broken:
            self._problem = self._problem or broken

    def _check_end(self, metadata: LedgerMetadata, version: int) -> None:
        last = max(self._newly_confirmed(), default=self.last_add_confirmed)
        how = f"LastAddConfirmed is {last}; the ledger is closed at entry {metadata.last_entry_id}"
        if metadata.last_entry_id != last or self._closing is None:
            raise Refused(contract.ENDS_AT, how)
        length = self._adds[last].length if last != NO_ENTRY_ID else 0
        if metadata.length != length:
            how += f" with length {metadata.length}; expected {length}"
            raise Refused(contract.CLOSED_LENGTH, how)
        if version not in self._cluster.known_versions:
            raise Refused(contract.CONFLICT, f"nobody has read version {version}")
        stored = self._cluster.metadata
        if version == self._cluster.version and stored.state is LedgerState.CLOSED:
            raise Refused(contract.OTHER_END, f"`close` writes {metadata}")
        if version == self._cluster.version and metadata.segments != stored.segments:
            how = f"the segments were {shown_segments(stored)}"
            raise Refused(contract.CONFLICT, f"{how}; `close` writes {shown_segments(metadata)}")

    def _check_change(self, metadata: LedgerMetadata) -> None:
        how = f"the new segments: {shown_segments(metadata)}"
        if self._is_fenced and not self._was_changing:
            raise Refused(contract.FENCED, how)
        [*earlier, last] = metadata.segments
        confirmed = max(self._newly_confirmed(), default=self.last_add_confirmed)
        if last.first_entry_id != confirmed + 1:
            raise Refused(contract.BEGINS, f"LastAddConfirmed is {confirmed}; {how}")
        segments = self._metadata.segments
        if earlier != [each for each in segments if each.first_entry_id < last.first_entry_id]:
            how = f"the old segments: {shown_segments(self._metadata)}; {how}"
            raise Refused(contract.REPLACES, how)
        old = segments[-1].ensemble
        if len(old) != len(last.ensemble):
            raise Refused(contract.KEEPS, how)
        changed = [(a, b) for a, b in zip(old, last.ensemble, strict=True) if a != b]
        added = [after for _, after in changed]
        moved = [each for each in added if each in old and last.ensemble.count(each) == 1]
        if moved or any(before not in self._failed for before, _ in changed):
            raise Refused(contract.KEEPS, how)
        spare = {*self._cluster.writable} - {*old} - self._failed
        if len({*added}) < len(added) or not {*added} <= spare:
            raise Refused(contract.OUTSIDE, how)

    # Facts about bookies and entries

    def _is_new(self, bookie: str) -> bool:
        return bookie not in self._first.segments[0].ensemble

    def _is_replacement(self, bookie: str) -> bool:
        """Return whether a bookie could replace a failed bookie, but is not in any stored
        ensemble.
        """
        return bool(self._failed) and bookie in {*self._cluster.writable} - self._members

    def _write_set(self, entry_id: int) -> list[str]:
        return write_set_of(self._metadata, entry_id)

    def _unconfirmed(self) -> range:
        return range(self.last_add_confirmed + 1, len(self._adds))

    def _is_complete(self, entry_id: int) -> bool:
        """Return whether Qa bookies that are still in the ensemble have acknowledged the entry."""
        acknowledged = self._cluster.acknowledged
        names = [each for each in self._write_set(entry_id) if (each, entry_id) in acknowledged]
        return len(names) >= self._metadata.ack_quorum

    def _is_blocked(self, entry_id: int) -> bool:
        """Return whether fewer than Qa bookies can acknowledge the entry."""
        names = [each for each in self._write_set(entry_id) if self._can_ack((each, entry_id))]
        return len(names) < self._metadata.ack_quorum

    def _was_given_up(self, entry_id: int) -> bool:
        """Return whether the writer ended because fewer than Qa bookies are left for the entry if
        it no longer counts on bookies that failed any of its adds.
        """
        acknowledged = self._cluster.acknowledged
        left = [
            each
            for each in self._write_set(entry_id)
            if each not in self._failed or (each, entry_id) in acknowledged
        ]
        error = self._adds[entry_id].error
        return len(left) < self._metadata.ack_quorum and isinstance(
            error, BKNotEnoughBookiesException
        )

    def _can_ack(self, request: Request) -> bool:
        may_come = request in self._late and request[0] not in self._failed
        is_sent = request in self._cluster.acknowledged or self._cluster.is_waiting(request)
        return is_sent or may_come

    def _outcome(self, entry_id: int) -> str:
        add = self._adds[entry_id]
        if add.is_confirmed:
            return f"the add of entry {entry_id} has returned"
        error = add.error
        done = f"raised {type(error).__name__}" if error else "still waits"
        return f"the add of entry {entry_id} {done}"
