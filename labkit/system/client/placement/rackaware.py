"""Placement that knows racks: what fails together must not hold all copies of an entry.

    racks A (a1, a2) and B (b1, b2), E = 4, Qw = 2       write sets
    a1 a2 b1 b2                                          a1 a2 | a2 b1 | b1 b2 | b2 a1    two fail
    a1 b1 a2 b2                                          a1 b1 | b1 a2 | a2 b2 | b2 a1    good

The rule: each write set, that is any Qw neighbours of the ensemble, spans at least
`min_num_racks_per_write_quorum` racks, or Qw if that is less.  Where the bookies do not allow it,
an ensemble spans as many as it can, unless the rule is enforced.

In BookKeeper: `client/RackawareEnsemblePlacementPolicyImpl.java`, which chooses one bookie after
the other and prefers the rack of a failed one; this tries all racks in turn, so what can adhere
does.  Copies of an ensemble that breaks the rule are moved to bookies outside it, never swapped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from labkit.system.client.placement.placement import Placement
from labkit.system.client.striping import write_set
from labkit.system.metadata.racks import DEFAULT_RACK

Racks = list[str | None]
"""Of an ensemble's places; None where no bookie is chosen yet."""


@dataclass(frozen=True, slots=True)
class RackawareEnsemblePlacementPolicy:
    """The rule, over the racks as they are known now.

    An `enforced` one takes no bookie of which the rack is not known, and no ensemble that breaks
    the rule.
    """

    racks: Mapping[str, str]
    min_num_racks_per_write_quorum: int
    enforced: bool = False

    def rack(self, bookie: str) -> str:
        """Where the bookie stands."""
        return self.racks.get(bookie, DEFAULT_RACK)

    def is_adhering(self, ensemble: Sequence[str], write_quorum: int) -> bool:
        """Whether every write set spans enough racks."""
        racks: Racks = [self.rack(bookie) for bookie in ensemble]
        if self.enforced and DEFAULT_RACK in racks:
            return False
        needed = self._needed(write_quorum)
        return all(_can_span(racks, place, write_quorum, needed) for place in range(len(racks)))

    def fill(
        self,
        ensemble: Sequence[str | None],
        places: Sequence[int],
        candidates: Sequence[str],
        write_quorum: int,
    ) -> dict[int, str]:
        """A bookie for each of the places, by preference those that come first; none at all if
        there are not enough, or an enforced rule cannot be kept.
        """
        if self.enforced:
            candidates = [each for each in candidates if self.rack(each) != DEFAULT_RACK]
        for needed in range(self._needed(write_quorum), 0, -1):
            chosen = self._fill(ensemble, places, candidates, write_quorum, needed)
            if chosen or self.enforced:
                return chosen
        return {}

    def better(
        self, ensemble: Sequence[str], candidates: Sequence[str], write_quorum: int
    ) -> dict[int, str]:
        """As few other bookies as make the ensemble adhere, by place; none if it does, or if
        nothing helps.
        """
        if self.is_adhering(ensemble, write_quorum):
            return {}
        outside = [each for each in candidates if each not in ensemble]
        for places in _subsets(len(ensemble)):
            needed = self._needed(write_quorum)
            chosen = self._fill(ensemble, places, outside, write_quorum, needed)
            changed = [chosen.get(place, bookie) for place, bookie in enumerate(ensemble)]
            if chosen and self.is_adhering(changed, write_quorum):
                return chosen
        return {}

    def _needed(self, write_quorum: int) -> int:
        return min(write_quorum, self.min_num_racks_per_write_quorum)

    def _fill(
        self,
        ensemble: Sequence[str | None],
        places: Sequence[int],
        candidates: Sequence[str],
        write_quorum: int,
        needed: int,
    ) -> dict[int, str]:
        laid: Racks = [None if bookie is None else self.rack(bookie) for bookie in ensemble]
        by_rack: dict[str, list[str]] = {}
        for bookie in candidates:
            by_rack.setdefault(self.rack(bookie), []).append(bookie)
        for place in places:
            laid[place] = None
        left = {rack: len(bookies) for rack, bookies in by_rack.items()}
        if not _assign_racks(laid, places, left, write_quorum, needed):
            return {}
        return {place: by_rack[rack].pop(0) for place in places if (rack := laid[place])}


class RackawarePlacement:
    """A `Placement` that fills the places of one ensemble, in their order."""

    def __init__(
        self,
        policy: RackawareEnsemblePlacementPolicy,
        placement: Placement,
        ensemble: Sequence[str | None],
        places: Sequence[int],
        write_quorum: int,
    ) -> None:
        """`placement` says which bookies are preferred, racks aside; `places` are filled even
        where `ensemble` names a bookie.
        """
        self._policy = policy
        self._placement = placement
        self._ensemble = list(ensemble)
        self._places = list(places)
        self._write_quorum = write_quorum

    def __call__(self, bookies: Sequence[str], count: int) -> Sequence[str]:
        """For the next `count` places; none if an enforced rule cannot be kept."""
        preferred = self._placement(bookies, len(bookies))
        places = self._places[:count]
        chosen = self._policy.fill(self._ensemble, places, preferred, self._write_quorum)
        for place, bookie in chosen.items():
            self._ensemble[place] = bookie
            self._places.remove(place)
        return list(chosen.values())


def _assign_racks(
    laid: Racks, places: Sequence[int], left: dict[str, int], write_quorum: int, needed: int
) -> bool:
    """Assign a rack to each of the places so that every write set can span what is needed; whether
    that is possible.  `left` says how many bookies each rack has to give.
    """
    if not places:
        return True
    place, *others = places
    racks = [rack for rack, count in left.items() if count]
    for rack in sorted(racks, key=lambda rack: _neighbours(laid, place, write_quorum).count(rack)):
        laid[place] = rack
        left[rack] -= 1
        if _can_span(laid, place, write_quorum, needed) and _assign_racks(
            laid, others, left, write_quorum, needed
        ):
            return True
        laid[place] = None
        left[rack] += 1
    return False


def _can_span(laid: Racks, place: int, write_quorum: int, needed: int) -> bool:
    """Whether the write sets with that place span enough racks, or still can."""
    for racks in _write_sets(laid, place, write_quorum):
        known = {rack for rack in racks if rack is not None}
        if len(known) + racks.count(None) < needed:
            return False
    return True


def _neighbours(laid: Racks, place: int, write_quorum: int) -> Racks:
    return [rack for racks in _write_sets(laid, place, write_quorum) for rack in racks]


def _write_sets(laid: Racks, place: int, write_quorum: int) -> Iterator[Racks]:
    size = len(laid)
    for before in range(write_quorum):
        yield [laid[at] for at in write_set((place - before) % size, size, write_quorum)]


def _subsets(size: int) -> Iterator[tuple[int, ...]]:
    """Of the places 0 to `size` - 1, the smallest first."""
    for count in range(1, size + 1):
        yield from combinations(range(size), count)
