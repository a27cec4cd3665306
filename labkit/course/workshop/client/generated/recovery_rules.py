"""The rules for `recover`: the contract of step 6, line by line.

A cluster reports each request, each response and each write of the metadata. A violation raises
`Refused` inside a call that the learner's code makes. Because the learner's code might catch the
exception, the cluster must store it.
"""

from labkit.course.checking.refused import Refused
from labkit.course.workshop.client import contract
from labkit.course.workshop.client.generated.scripted_cluster import write_set_of
from labkit.system.client.quorum import is_covered
from labkit.system.model.entry import NO_ENTRY_ID, Entry
from labkit.system.model.ledger import LedgerMetadata, LedgerState


class RecoveryRules:
    """Checks the recovery of a ledger for which the writer packed these entries."""

    def __init__(self, packed: list[Entry]) -> None:
        self._packed = packed
        self._start: int | None = None
        """The LastAddConfirmed with which the recovery began, once it reads an entry."""
        self._first_read = NO_ENTRY_ID
        self._reported = NO_ENTRY_ID
        self._fenced: set[str] = set()
        self._denied: set[tuple[str, int]] = set()
        self._sent: set[int] = set()
        self._written: dict[int, set[str]] = {}
        self._known_versions: set[int] = set()

    # Requests to bookies

    def asks(self, stored: LedgerMetadata, bookie: str, entry_id: int, *, fence: bool) -> None:
        """Check a read request; entry -1 stands for the bookie's newest entry."""
        if stored.state is LedgerState.OPEN:
            raise Refused(contract.MARKED, f"{bookie} is asked, and the metadata are OPEN")
        if entry_id == NO_ENTRY_ID or stored.state is LedgerState.CLOSED:
            return
        if self._start is None:
            self._first_read = entry_id
            self._start = max(self._reported, stored.segments[-1].first_entry_id - 1)
            if not self._start <= entry_id <= self._start + 1:
                how = (
                    f"LastAddConfirmed is {self._start}; the first entry that is read is {entry_id}"
                )
                raise Refused(contract.LOWER_BOUND, how)
        if entry_id > self._start and not fence and bookie not in self._fenced:
            how = f"{bookie} is asked for entry {entry_id}, and is not fenced"
            raise Refused(contract.FENCING_READS, how)

    def returned(self, bookie: str, entry_id: int, entry: Entry, *, fence: bool) -> None:
        if entry_id == NO_ENTRY_ID:
            self._reported = max(self._reported, entry.last_add_confirmed)
            self._deny_after(bookie, entry.entry_id, fence=fence)
        if fence:
            self._fenced.add(bookie)

    def denied(self, bookie: str, entry_id: int, *, fence: bool) -> None:
        if entry_id == NO_ENTRY_ID:
            self._deny_after(bookie, NO_ENTRY_ID, fence=fence)
        elif fence or bookie in self._fenced:
            self._denied.add((bookie, entry_id))
        if fence:
            self._fenced.add(bookie)

    def _deny_after(self, bookie: str, newest: int, *, fence: bool) -> None:
        """If the bookie is fenced, record that it has no entry after its newest entry."""
        if fence or bookie in self._fenced:
            later = range(newest + 1, len(self._packed) + 1)
            self._denied.update((bookie, entry_id) for entry_id in later)

    def writes_back(
        self, stored: LedgerMetadata, bookie: str, entry: Entry, *, recovery: bool
    ) -> None:
        how = f"entry {entry.entry_id} is sent to {bookie}"
        if stored.state is LedgerState.CLOSED:
            raise Refused(contract.FIRST_CLOSES, f"{how}, and the ledger is closed")
        if not recovery:
            raise Refused(contract.WRITTEN_BACK, f"{how} without the recovery flag")
        if bookie not in write_set_of(stored, entry.entry_id):
            raise Refused(contract.WRITTEN_BACK, f"{how}, which is not in its write set")
        packed = self._packed[entry.entry_id]
        if (entry.payload, entry.length) != (packed.payload, packed.length):
            raise Refused(contract.WRITTEN_BACK, f"{how} as {entry}; it was packed as {packed}")
        carried, start = entry.last_add_confirmed, self._start
        how += f" with LastAddConfirmed {carried}; the recovery must begin with {start}"
        began_later = carried == self._first_read < entry.entry_id and carried not in self._sent
        if start is not None and (entry.entry_id <= start or (carried > start and began_later)):
            raise Refused(contract.LOWER_BOUND, how)
        self._sent.add(entry.entry_id)
        if carried != start:
            raise Refused(contract.CARRIES, how)

    def written_back(self, bookie: str, entry_id: int) -> None:
        self._written.setdefault(entry_id, set()).add(bookie)

    # Metadata

    def knows_version(self, version: int) -> None:
        self._known_versions.add(version)

    def writes(self, stored: LedgerMetadata, wanted: LedgerMetadata, version: int) -> None:
        """Check metadata that will replace the stored metadata, because the writer knows the
        current version.
        """
        if version not in self._known_versions:
            raise Refused(contract.RETRIES, f"nobody has read version {version}")
        if stored.state is LedgerState.CLOSED:
            how = f"it was closed at entry {stored.last_entry_id}; it becomes {wanted.state.name}"
            raise Refused(contract.FIRST_CLOSES, f"{how} at entry {wanted.last_entry_id}")
        if wanted.segments != stored.segments:
            how = f"another client has stored {stored.segments}; `recover` stores {wanted.segments}"
            raise Refused(contract.RETRIES, how)
        if wanted.state is LedgerState.OPEN:
            raise Refused(contract.PROVEN, "the ledger becomes OPEN")
        if wanted.state is LedgerState.CLOSED:
            self._check_end(wanted)

    def _check_end(self, closed: LedgerMetadata) -> None:
        last, size, quorum = closed.last_entry_id, closed.ensemble_size, closed.write_quorum
        how = f"the ledger is closed at entry {last}"
        ensemble = closed.segments[-1].ensemble
        fenced = [index for index, bookie in enumerate(ensemble) if bookie in self._fenced]
        if not is_covered(fenced, size, quorum, closed.ack_quorum):
            names = ", ".join(ensemble[index] for index in fenced) or "none"
            raise Refused(contract.FENCES, f"{how}; fenced: {names}")
        after = last + 1
        denying = [each for each in write_set_of(closed, after) if (each, after) in self._denied]
        if len(denying) <= quorum - closed.ack_quorum:
            names = ", ".join(denying) or "no bookie"
            raise Refused(contract.PROVEN, f"{how}; entry {after} is denied by {names}")
        start = last if self._start is None else self._start
        if last < start:
            raise Refused(contract.PROVEN, f"{how}; the recovery began with {start}")
        for entry_id in range(start + 1, last + 1):
            have = sorted(self._written.get(entry_id, ()))
            if len(have) < closed.ack_quorum:
                how += f"; entry {entry_id} was written back to {', '.join(have) or 'no bookie'}"
                raise Refused(contract.WRITTEN_BACK, how)
        length = self._packed[last].length if last != NO_ENTRY_ID else 0
        if closed.length != length:
            how += f" with length {closed.length}; expected {length}"
            raise Refused(contract.CLOSED_LENGTH, how)
