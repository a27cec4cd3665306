"""Rack-aware placement: spreads the copies of each entry over several racks, in case a rack fails.

    racks A (a1, a2) and B (b1, b2), E = 4, Qw = 2

    ensemble      write sets
    a1 a2 b1 b2   a1 a2 | a2 b1 | b1 b2 | b2 a1    two write sets are in a single rack
    a1 b1 a2 b2   a1 b1 | b1 a2 | a2 b2 | b2 a1    good

The rule: each write set (Qw consecutive bookies of the ensemble) spans at least
`min_num_racks_per_write_quorum` racks, or Qw racks if Qw is smaller. If the available bookies do
not allow this, the write sets span as many racks as possible, unless the rule is enforced.

In BookKeeper: `client/RackawareEnsemblePlacementPolicyImpl.java`, which chooses bookies one at
a time, and prefers the failed bookie's rack for its replacement. This module tries all combinations
of racks, so it finds an ensemble that satisfies the rule if there is one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from labkit.system.client.placement.placement import Placement
from labkit.system.client.striping import write_set
from labkit.system.metadata.racks import DEFAULT_RACK

Racks = list[str | None]
"""The rack at each ensemble index; None if no bookie has been chosen yet."""


@dataclass(frozen=True, slots=True)
class RackawareEnsemblePlacementPolicy:
    """Chooses bookies by their racks. If `enforced` is set, it rejects bookies without a known
    rack, and ensembles that break the rule.
    """

    racks: Mapping[str, str]
    min_num_racks_per_write_quorum: int
    enforced: bool = False

    def rack(self, bookie: str) -> str:
        return self.racks.get(bookie, DEFAULT_RACK)

    def is_adhering(self, ensemble: Sequence[str], write_quorum: int) -> bool:
        racks: Racks = [self.rack(bookie) for bookie in ensemble]
        if self.enforced and DEFAULT_RACK in racks:
            return False
        needed = self._needed(write_quorum)
        return all(_can_span(racks, index, write_quorum, needed) for index in range(len(racks)))

    def fill(
        self,
        ensemble: Sequence[str | None],
        indices: Sequence[int],
        candidates: Sequence[str],
        write_quorum: int,
    ) -> dict[int, str]:
        """Choose a bookie for each of these ensemble indices. Prefer earlier candidates.

        Return {} if there are too few candidates, or if the rule is enforced and cannot be
        satisfied.
        """
        if self.enforced:
            candidates = [each for each in candidates if self.rack(each) != DEFAULT_RACK]
        for needed in range(self._needed(write_quorum), 0, -1):
            chosen = self._fill(ensemble, indices, candidates, write_quorum, needed)
            if chosen or self.enforced:
                return chosen
        return {}

    def replace_to_adhere(
        self, ensemble: Sequence[str], candidates: Sequence[str], write_quorum: int
    ) -> dict[int, str]:
        """Return the smallest set of replacements that satisfies the rule, keyed by ensemble index.

        Return {} if the ensemble already satisfies the rule, or if no replacements satisfy it.
        """
        if self.is_adhering(ensemble, write_quorum):
            return {}
        outside = [each for each in candidates if each not in ensemble]
        every_index = range(len(ensemble))
        for indices in chain(*(combinations(every_index, n + 1) for n in every_index)):
            needed = self._needed(write_quorum)
            chosen = self._fill(ensemble, indices, outside, write_quorum, needed)
            changed = [chosen.get(index, bookie) for index, bookie in enumerate(ensemble)]
            if chosen and self.is_adhering(changed, write_quorum):
                return chosen
        return {}

    def _needed(self, write_quorum: int) -> int:
        return min(write_quorum, self.min_num_racks_per_write_quorum)

    def _fill(
        self,
        ensemble: Sequence[str | None],
        indices: Sequence[int],
        candidates: Sequence[str],
        write_quorum: int,
        needed: int,
    ) -> dict[int, str]:
        racks: Racks = [None if bookie is None else self.rack(bookie) for bookie in ensemble]
        by_rack: dict[str, list[str]] = {}
        for bookie in candidates:
            by_rack.setdefault(self.rack(bookie), []).append(bookie)
        for index in indices:
            racks[index] = None
        available = {rack: len(bookies) for rack, bookies in by_rack.items()}
        if not _assign_racks(racks, indices, available, write_quorum, needed):
            return {}
        return {index: by_rack[rack].pop(0) for index in indices if (rack := racks[index])}


class RackawarePlacement:
    """A `Placement` that fills the given indices of one ensemble, in the given order."""

    def __init__(
        self,
        policy: RackawareEnsemblePlacementPolicy,
        placement: Placement,
        ensemble: Sequence[str | None],
        indices: Sequence[int],
        write_quorum: int,
    ) -> None:
        """`placement` determines the order in which bookies are preferred."""
        self._policy = policy
        self._placement = placement
        self._ensemble = list(ensemble)
        self._indices = list(indices)
        self._write_quorum = write_quorum

    def __call__(self, bookies: Sequence[str], count: int) -> Sequence[str]:
        preferred = self._placement(bookies, len(bookies))
        indices = self._indices[:count]
        chosen = self._policy.fill(self._ensemble, indices, preferred, self._write_quorum)
        for index, bookie in chosen.items():
            self._ensemble[index] = bookie
            self._indices.remove(index)
        return list(chosen.values())


def _assign_racks(
    racks: Racks, indices: Sequence[int], available: dict[str, int], write_quorum: int, needed: int
) -> bool:
    """Try to assign a rack to each of the indices so that every write set spans enough racks.

    `available` contains the number of bookies left in each rack.
    """
    if not indices:
        return True
    index, *others = indices
    options = [rack for rack, count in available.items() if count]
    neighbours = [*chain(*_racks_of_write_sets(racks, index, write_quorum))]
    for rack in sorted(options, key=neighbours.count):
        racks[index] = rack
        available[rack] -= 1
        if _can_span(racks, index, write_quorum, needed) and _assign_racks(
            racks, others, available, write_quorum, needed
        ):
            return True
        racks[index] = None
        available[rack] += 1
    return False


def _can_span(racks: Racks, index: int, write_quorum: int, needed: int) -> bool:
    """Return whether each write set that contains the index spans enough racks, or can still do so
    once all of its bookies are chosen.
    """
    return all(
        len({*some} - {None}) + some.count(None) >= needed
        for some in _racks_of_write_sets(racks, index, write_quorum)
    )


def _racks_of_write_sets(racks: Racks, index: int, write_quorum: int) -> Iterator[Racks]:
    """Yield the racks of each write set that contains the index."""
    size = len(racks)
    for before in range(write_quorum):
        yield [racks[i] for i in write_set((index - before) % size, size, write_quorum)]
