"""The segments of a ledger, as reported by events.

Write sets are computed here, because a check that used the client's function would also have that
function's bugs.
"""

from bisect import bisect_left, bisect_right


class Segments:
    __slots__ = ("_write_sets", "ensembles", "firsts")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.ensembles: list[tuple[str, ...]] = []
        self._write_sets: list[tuple[tuple[str, ...], ...]] = []

    def put(self, first: int, ensemble: tuple[str, ...], write_quorum: int) -> tuple[str, ...]:
        """Set the ensemble of the segment that starts at `first`. Return the previous one, or ().

        A write quorum of 0 means that the quorum is unknown.
        """
        size = len(ensemble)
        write_sets = tuple(
            tuple(ensemble[(index + i) % size] for i in range(write_quorum))
            for index in range(size)
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
        """Return the entry's Qw bookies, or () if the trace does not show them."""
        at = bisect_right(self.firsts, entry) - 1
        if at < 0:
            return ()
        write_sets = self._write_sets[at]
        return write_sets[entry % len(write_sets)] if write_sets else ()

    def entry_ids(self, first: int, last: int) -> range:
        """Return the entry ids up to `last` in the segment that starts at `first`."""
        following = bisect_right(self.firsts, first)
        if following < len(self.firsts):
            last = min(last, self.firsts[following] - 1)
        return range(first, last + 1)
