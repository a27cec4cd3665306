"""Decisions on fragments: which copies a ledger should have, which to test, which are missing.

A fragment is what one ensemble stores of a ledger.  A place is a position in the ensemble; its
bookie stores the entries whose write set holds the place.

In BookKeeper: `client/LedgerFragment.java`, `client/LedgerChecker.java`,
`client/LedgerFragmentReplicator.java`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from labkit.system.autorecovery.random_port import Draw
from labkit.system.client.striping import write_set
from labkit.system.model.errors import BKException, BKMetadataVersionException
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment


@dataclass(frozen=True, slots=True)
class Fragment:
    """Entries `first` to `last` of a ledger, on the bookies of `ensemble`.

    `last` < `first`: it holds no entry.  `closed`: no client can add to it.
    """

    first: int
    last: int
    ensemble: tuple[str, ...]
    write_quorum: int
    closed: bool

    def is_stored(self, entry_id: int, place: int) -> bool:
        """Whether the bookie at that place should have the entry."""
        return place in write_set(entry_id, len(self.ensemble), self.write_quorum)

    def first_stored(self, place: int) -> int | None:
        """The first entry that the bookie at that place should have, if any."""
        return next(self._stored(range(self.first, self.last + 1), place), None)

    def last_stored(self, place: int) -> int | None:
        """The last entry that the bookie at that place should have, if any."""
        return next(self._stored(range(self.last, self.first - 1, -1), place), None)

    def _stored(self, entry_ids: range, place: int) -> Iterator[int]:
        return (entry_id for entry_id in entry_ids if self.is_stored(entry_id, place))


@dataclass(frozen=True, slots=True)
class Underreplicated:
    """A fragment, and the places in its ensemble whose copies are missing."""

    fragment: Fragment
    places: tuple[int, ...]

    @property
    def bookies(self) -> tuple[str, ...]:
        """The bookies that miss their copies."""
        return tuple(self.fragment.ensemble[place] for place in self.places)

    def sources(self, entry_id: int) -> list[str]:
        """The bookies to ask for an entry: first those that have their copies; the others may have
        some.
        """
        ensemble, write_quorum = self.fragment.ensemble, self.fragment.write_quorum
        places = write_set(entry_id, len(ensemble), write_quorum)
        return [ensemble[n] for n in sorted(places, key=lambda n: n in self.places)]


def fragments_of(metadata: LedgerMetadata, last_confirmed: int) -> list[Fragment]:
    """A fragment for each segment; the last one goes up to the last entry that is confirmed.

    A segment begins at the writer's LastAddConfirmed + 1, so everything before it is confirmed,
    whatever the bookies of the new ensemble know of that.
    """
    segments, is_closed = metadata.segments, metadata.state is LedgerState.CLOSED
    quorum = metadata.write_quorum
    before = [
        Fragment(one.first_entry_id, following.first_entry_id - 1, one.ensemble, quorum, True)
        for one, following in pairwise(segments)
    ]
    # A new ensemble may know of no confirmed entry, although there are some before it.
    last = max(last_confirmed, segments[-1].first_entry_id - 1)
    first, ensemble = segments[-1].first_entry_id, segments[-1].ensemble
    return [*before, Fragment(first, last, ensemble, quorum, is_closed)]


def entries_to_test(fragment: Fragment, place: int, percentage: int, draw: Draw) -> list[int]:
    """The entries that show whether a bookie has its copies: always its first and its last one.

    Of the others `percentage`, one drawn from each of as many equal parts of the fragment.
    """
    first, last = fragment.first_stored(place), fragment.last_stored(place)
    if first is None or last is None:
        return []
    length = last - first + 1
    count = length * percentage // 100
    if count == length:
        chosen = range(first, last + 1)
        return [entry_id for entry_id in chosen if fragment.is_stored(entry_id, place)]
    tested = {first: None, last: None}
    if count:
        part = length // count
        for start in range(first, last - part, part):
            entry_id = start + draw(part)
            if fragment.is_stored(entry_id, place):
                tested[entry_id] = None
    return sorted(tested)


def missing_places(
    fragment: Fragment,
    registered: Collection[str],
    failures: Mapping[int, Sequence[BKException]],
) -> tuple[int, ...]:
    """The places whose copies must be replaced.

    `failures` holds, for each place, the errors of its bookie on the entries it was tested for.  An
    unregistered bookie counts as missing its copies even if it should have none: otherwise the
    ledger would stay marked because of it for ever.
    """
    return tuple(
        place
        for place, bookie in enumerate(fragment.ensemble)
        if bookie not in registered or failures.get(place)
    )


def with_replaced(
    metadata: LedgerMetadata, first_entry_id: int, replaced: Mapping[str, str]
) -> LedgerMetadata | None:
    """The metadata with new bookies instead of old ones in one segment; None if no old one is left
    there.

    Raises `BKMetadataVersionException` when another client put one of the new ones there.
    """
    at = next(
        (n for n, s in enumerate(metadata.segments) if s.first_entry_id == first_entry_id), None
    )
    if at is None:
        return None
    before = metadata.segments[at].ensemble
    if not any(bookie in replaced for bookie in before):
        return None
    ensemble = tuple(replaced.get(bookie, bookie) for bookie in before)
    if len(set(ensemble)) < len(ensemble):
        raise BKMetadataVersionException(
            f"the ensemble from entry {first_entry_id} on was changed to {', '.join(before)}"
            " by another client"
        )
    segments = list(metadata.segments)
    segments[at] = Segment(first_entry_id, ensemble)
    return replace(metadata, segments=tuple(segments), c_token=0)
