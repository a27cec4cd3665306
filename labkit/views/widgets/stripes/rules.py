"""Rules for how a ledger with given E, Qw and Qa behaves when some of its bookies fail.

Tests compare these rules with the rules of the client (`labkit.system.client.striping`,
`labkit.system.client.quorum`).
"""

from collections.abc import Collection
from dataclasses import dataclass

from labkit.views.widgets.drawing.plurals import counted

SAFE, PERHAPS, LOST = "safe", "perhaps", "lost"
ENOUGH, COPY, FAILED = "enough", "copy", "failed"


@dataclass(frozen=True, slots=True)
class Striping:
    """The quorums of a ledger, and the ensemble indices of its failed bookies."""

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    failed: Collection[int] = ()

    def write_set(self, entry: int) -> tuple[int, ...]:
        """Return the ensemble indices of the bookies that store the entry, in the order in which a
        reader tries them.
        """
        return tuple((entry + i) % self.ensemble_size for i in range(self.write_quorum))

    def cells(self, entry: int) -> dict[int, str]:
        """Return how to draw each index of the write set: `enough` for the first Qa bookies that
        respond, and `copy` for the other bookies that respond.
        """
        found: dict[int, str] = {}
        for index in self.write_set(entry):
            answering = sum(look == ENOUGH for look in found.values())
            free = COPY if answering == self.ack_quorum else ENOUGH
            found[index] = FAILED if index in self.failed else free
        return found

    def failed_in(self, entry: int) -> int:
        return sum(index in self.failed for index in self.write_set(entry))

    def fate(self, entry: int) -> str:
        """Return whether a confirmed entry is safe.

        `safe`: fewer than Qa bookies of the write set have failed, so at least one bookie that
        acknowledged the entry is responding. `perhaps`: all bookies that acknowledged the entry may
        have failed. `lost`: all bookies of the write set have failed.
        """
        count = self.failed_in(entry)
        if count < self.ack_quorum:
            return SAFE
        return PERHAPS if count < self.write_quorum else LOST

    def can_be_added(self, entry: int) -> bool:
        """Return whether Qa bookies of the write set respond, so that no ensemble change is
        needed.
        """
        return self.write_quorum - self.failed_in(entry) >= self.ack_quorum

    @property
    def is_covered(self) -> bool:
        """Whether every entry that may have been confirmed is known to at least one responding
        bookie.
        """
        return all(self.fate(first) == SAFE for first in range(self.ensemble_size))

    @property
    def blocked(self) -> int | None:
        """The first of the entries 0 to E - 1 that cannot be confirmed at the moment, or None."""
        firsts = range(self.ensemble_size)
        return next((first for first in firsts if not self.can_be_added(first)), None)

    def answers(self, entries: int) -> list[tuple[str, bool, str]]:
        """Return three yes/no questions, each with its answer (True for yes) and an explanation."""
        fates = [self.fate(entry) for entry in range(entries)]
        lost, perhaps = fates.count(LOST), fates.count(PERHAPS)
        parts = [f"{lost} {'is' if lost == 1 else 'are'} lost"] if lost else []
        parts += [f"{perhaps} may be lost"] if perhaps else []
        blocked = self.blocked
        alive = 0 if blocked is None else self.write_quorum - self.failed_in(blocked)
        return [
            (
                "Is every confirmed entry safe?",
                not parts,
                f"No: of {counted(entries, 'entry', 'entries')}, {', '.join(parts)}."
                if parts
                else f"Yes: in each write set, fewer than Qa = {self.ack_quorum} bookies failed.",
            ),
            (
                "Can the writer continue as is?",
                blocked is None,
                f"Yes: at least Qa = {self.ack_quorum} bookies of each write set respond."
                if blocked is None
                else f"No: entry {blocked} needs {self.ack_quorum} acknowledgements, but"
                f" only {alive} of its bookies can respond. A failed bookie must be replaced.",
            ),
            (
                "Can recovery find the end of the ledger?",
                self.is_covered,
                "Yes: the remaining bookies know about every confirmed entry."
                if self.is_covered
                else "No: an entry may have been confirmed by the failed bookies alone.",
            ),
        ]

    def tolerances(self) -> list[tuple[int, str]]:
        """Return several guarantees, each with the number of arbitrary bookies that can fail
        without breaking it.
        """
        return [
            (self.ack_quorum - 1, "every confirmed entry is safe, and recovery finds the end"),
            (self.write_quorum - self.ack_quorum, "adds are confirmed without replacing a bookie"),
            (self.write_quorum - 1, "an entry stored on all its Qw bookies is still readable"),
        ]
