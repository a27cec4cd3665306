"""What E, Qw and Qa mean for a ledger when some of its bookies fail.

Tests compare these rules with the client's (`labkit.system.client.striping`,
`labkit.system.client.quorum`).
"""

from collections.abc import Collection
from dataclasses import dataclass

SAFE, PERHAPS, LOST = "safe", "perhaps", "lost"
ENOUGH, COPY, FAILED = "enough", "copy", "failed"


@dataclass(frozen=True, slots=True)
class Striping:
    """A ledger's three numbers, and the places of its ensemble that do not answer."""

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    failed: Collection[int] = ()

    def write_set(self, entry: int) -> tuple[int, ...]:
        """The places that store the entry, in the order in which a reader asks them."""
        return tuple((entry + i) % self.ensemble_size for i in range(self.write_quorum))

    def cells(self, entry: int) -> dict[int, str]:
        """The look of each place of the write set: `enough` for the first Qa that answer, `copy`
        for the others that do.
        """
        found: dict[int, str] = {}
        for place in self.write_set(entry):
            answering = sum(look == ENOUGH for look in found.values())
            free = COPY if answering == self.ack_quorum else ENOUGH
            found[place] = FAILED if place in self.failed else free
        return found

    def failed_in(self, entry: int) -> int:
        """The number of failed bookies in the write set."""
        return sum(place in self.failed for place in self.write_set(entry))

    def fate(self, entry: int) -> str:
        """The state of a confirmed entry.

        `safe`: fewer than Qa bookies fail, so one that acknowledged it answers.  `perhaps`: the
        failed ones may be the only ones that had it.  `lost`: no bookie of its write set answers.
        """
        count = self.failed_in(entry)
        if count < self.ack_quorum:
            return SAFE
        return PERHAPS if count < self.write_quorum else LOST

    def can_be_added(self, entry: int) -> bool:
        """Whether Qa bookies of its write set answer, without a change of the ensemble."""
        return self.write_quorum - self.failed_in(entry) >= self.ack_quorum

    @property
    def is_covered(self) -> bool:
        """Whether the bookies that answer know of everything that may have been confirmed."""
        return all(self.fate(first) == SAFE for first in range(self.ensemble_size))

    @property
    def blocked(self) -> int | None:
        """The first entry of a round that cannot be confirmed now; None if all of them can."""
        firsts = range(self.ensemble_size)
        return next((first for first in firsts if not self.can_be_added(first)), None)

    def answers(self, entries: int) -> list[tuple[str, bool, str]]:
        """Three questions: the title, whether the answer is yes, and the answer in words."""
        fates = [self.fate(entry) for entry in range(entries)]
        lost, perhaps = fates.count(LOST), fates.count(PERHAPS)
        parts = [f"lost: {lost}"] if lost else []
        parts += [f"perhaps lost: {perhaps}"] if perhaps else []
        blocked = self.blocked
        alive = 0 if blocked is None else self.write_quorum - self.failed_in(blocked)
        return [
            (
                "Is every confirmed entry there?",
                not parts,
                f"Of {entries} entries {', '.join(parts)}."
                if parts
                else f"Yes: in each write set fewer than Qa = {self.ack_quorum} fail.",
            ),
            (
                "Can its writer go on as it is?",
                blocked is None,
                f"Yes: in each write set Qa = {self.ack_quorum} answer."
                if blocked is None
                else f"No: of entry {blocked}'s bookies {alive} answer, {self.ack_quorum} are"
                " wanted. Another bookie must take a place.",
            ),
            (
                "Can its end be found?",
                self.is_covered,
                "Yes: those that answer know of all that was confirmed."
                if self.is_covered
                else "No: an entry may have been confirmed by those that do not answer.",
            ),
        ]

    def tolerances(self) -> list[tuple[int, str]]:
        """The numbers of bookies that may fail, whichever they are, and what still holds."""
        return [
            (self.ack_quorum - 1, "every confirmed entry is there, and the end can be found"),
            (self.write_quorum - self.ack_quorum, "adds are confirmed, no bookie is replaced"),
            (self.write_quorum - 1, "an entry that all its Qw bookies have is there"),
        ]
