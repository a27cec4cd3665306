"""A ledger's segments as the events report them: which bookies store which entries.

The checks compute write sets themselves and not with the client's function: a check that used the
code it judges would share its mistakes.
"""

import re
from bisect import bisect_left, bisect_right


def names(note: str) -> tuple[str, ...]:
    """The bookies that an event's note lists, in its order."""
    return tuple(re.findall(r"[^\s,\[\]()'\"]+", note))


def listed(note: str) -> list[tuple[int, tuple[str, ...]]]:
    """The segments that a note lists, as in `0:b0,b1,b2 7:b0,b1,b3`."""
    parts = (part.partition(":") for part in note.split())
    return [(int(first), names(ensemble)) for first, _, ensemble in parts]


class Segments:
    """Ensembles by their first entries, ascending."""

    __slots__ = ("_write_sets", "ensembles", "firsts")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.ensembles: list[tuple[str, ...]] = []
        self._write_sets: list[tuple[tuple[str, ...], ...]] = []

    def put(self, first: int, ensemble: tuple[str, ...], write_quorum: int) -> tuple[str, ...]:
        """Store the entries from `first` on here, up to the next segment's first.

        Returns the ensemble that it replaces, if any.  A write quorum of 0: not known.
        """
        size = len(ensemble)
        write_sets = tuple(
            tuple(ensemble[(place + i) % size] for i in range(write_quorum))
            for place in range(size)
        )
        at = bisect_left(self.firsts, first)
        if self.firsts[at : at + 1] == [first]:
            before = self.ensembles[at]
            self.ensembles[at], self._write_sets[at] = ensemble, write_sets
            return before
        self.firsts.insert(at, first)
        self.ensembles.insert(at, ensemble)
        self._write_sets.insert(at, write_sets)
        return ()

    def write_set(self, entry: int) -> tuple[str, ...]:
        """The Qw bookies of the entry; empty if the events do not say."""
        at = bisect_right(self.firsts, entry) - 1
        if at < 0:
            return ()
        write_sets = self._write_sets[at]
        return write_sets[entry % len(write_sets)] if write_sets else ()

    def reach(self, first: int, last: int) -> range:
        """The entries of the segment that begins at `first`; `last` is the ledger's last entry."""
        following = bisect_right(self.firsts, first)
        if following < len(self.firsts):
            last = min(last, self.firsts[following] - 1)
        return range(first, last + 1)
