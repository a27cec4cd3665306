"""Determines which copies a ledger should have, which of them to check, and which are missing.

A fragment is the part of a ledger that is stored on the same ensemble. The bookie at an ensemble
index stores the entries whose write sets contain that index.

In BookKeeper: `client/LedgerFragment.java`, `client/LedgerChecker.java`,
`client/LedgerFragmentReplicator.java`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from labkit.system.autorecovery.random_source import Draw
from labkit.system.client.striping import write_set
from labkit.system.model.errors import BKException, BKMetadataVersionException
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment


@dataclass(frozen=True, slots=True)
class Fragment:
    """Entries `first` to `last` of a ledger, stored on the bookies of `ensemble`.

    An empty fragment has `last` = `first` - 1. No client can add to a `closed` fragment.
    """

    first: int
    last: int
    ensemble: tuple[str, ...]
    write_quorum: int
    closed: bool

    def should_have(self, entry_id: int, index: int) -> bool:
        return index in write_set(entry_id, len(self.ensemble), self.write_quorum)

    def first_entry(self, index: int) -> int | None:
        """Return the first entry that the bookie at `index` should have."""
        return next(self._entries(range(self.first, self.last + 1), index), None)

    def last_entry(self, index: int) -> int | None:
        return next(self._entries(range(self.last, self.first - 1, -1), index), None)

    def _entries(self, entry_ids: range, index: int) -> Iterator[int]:
        return (entry_id for entry_id in entry_ids if self.should_have(entry_id, index))


@dataclass(frozen=True, slots=True)
class UnderreplicatedFragment:
    """A fragment and the ensemble indexes of the bookies whose copies are missing."""

    fragment: Fragment
    bookie_indexes: tuple[int, ...]

    @property
    def bookies(self) -> tuple[str, ...]:
        return tuple(self.fragment.ensemble[index] for index in self.bookie_indexes)

    @property
    def bookie_at(self) -> dict[int, str]:
        return {index: self.fragment.ensemble[index] for index in self.bookie_indexes}

    def sources(self, entry_id: int) -> list[str]:
        """Return the bookies of an entry's write set in the order in which to query them, those
        with missing copies last.
        """
        ensemble, write_quorum = self.fragment.ensemble, self.fragment.write_quorum
        indexes = write_set(entry_id, len(ensemble), write_quorum)
        return [ensemble[n] for n in sorted(indexes, key=lambda n: n in self.bookie_indexes)]


def fragments_of(metadata: LedgerMetadata, last_confirmed: int) -> list[Fragment]:
    """Return a fragment for each segment; the last one ends at the last confirmed entry.

    A segment begins at the writer's LastAddConfirmed + 1, so all entries before it are confirmed.
    """
    segments, is_closed = metadata.segments, metadata.state is LedgerState.CLOSED
    quorum = metadata.write_quorum
    before = [
        Fragment(one.first_entry_id, following.first_entry_id - 1, one.ensemble, quorum, True)
        for one, following in pairwise(segments)
    ]
    # The bookies of a new ensemble may report a LastAddConfirmed from before the segment.
    last = max(last_confirmed, segments[-1].first_entry_id - 1)
    first, ensemble = segments[-1].first_entry_id, segments[-1].ensemble
    return [*before, Fragment(first, last, ensemble, quorum, is_closed)]


def entries_to_test(fragment: Fragment, index: int, percentage: int, draw: Draw) -> list[int]:
    """Choose the entries to read when checking whether the bookie at `index` has its copies.

    The first and the last entry that the bookie should have are always chosen. In addition, the
    range between them is divided into equal parts, as many as `percentage` percent of its entries.
    One entry is drawn at random from each part, and is chosen if the bookie should have it.
    (BookKeeper skips the last part.)
    """
    first, last = fragment.first_entry(index), fragment.last_entry(index)
    if first is None or last is None:
        return []
    length = last - first + 1
    count = length * percentage // 100
    if count == length:
        chosen = range(first, last + 1)
        return [entry_id for entry_id in chosen if fragment.should_have(entry_id, index)]
    tested = {first: None, last: None}
    for part in range(count):
        start, end = (first + length * n // count for n in (part, part + 1))
        entry_id = start + draw(end - start)
        if fragment.should_have(entry_id, index):
            tested[entry_id] = None
    return sorted(tested)


def underreplicated_indexes(
    fragment: Fragment, registered: Collection[str], failures: Mapping[int, Sequence[BKException]]
) -> tuple[int, ...]:
    """Return the ensemble indexes of the bookies whose copies must be replaced.

    `failures` maps an ensemble index to the errors returned by its bookie. Unregistered bookies
    are always included, even if they should not have any entries: if one remained in the metadata,
    every audit would mark the ledger again.
    """
    return tuple(
        index
        for index, bookie in enumerate(fragment.ensemble)
        if bookie not in registered or failures.get(index)
    )


def replace_bookies(
    metadata: LedgerMetadata, first_entry_id: int, replaced: Mapping[str, str]
) -> LedgerMetadata | None:
    """Return metadata in which bookies of a segment are replaced, or None if there are none to
    replace.

    `replaced` maps old bookies to new ones. Raises `BKMetadataVersionException` if another client
    has already added one of the new bookies to the segment.
    """
    segments = {segment.first_entry_id: segment for segment in metadata.segments}
    before = segments[first_entry_id].ensemble if first_entry_id in segments else ()
    if not any(bookie in replaced for bookie in before):
        return None
    ensemble = tuple(replaced.get(bookie, bookie) for bookie in before)
    if len(set(ensemble)) < len(ensemble):
        raise BKMetadataVersionException(
            "another client has changed the ensemble of the segment that starts at entry"
            f" {first_entry_id}: it is now {', '.join(before)}"
        )
    segments[first_entry_id] = Segment(first_entry_id, ensemble)
    return replace(metadata, segments=tuple(segments.values()), c_token=0)
