"""Placement: which bookies become an ensemble.

In BookKeeper: `client/DefaultEnsemblePlacementPolicy.java` (random choice).
"""

from collections.abc import Callable, Sequence

from labkit.model.errors import BKNotEnoughBookiesException

Placement = Callable[[Sequence[str], int], Sequence[str]]
"""Takes that many of the bookies given, in the order in which they make the ensemble."""


def in_name_order(bookies: Sequence[str], count: int) -> Sequence[str]:
    """The first by name: for lessons, where the same picture must come again."""
    return sorted(bookies)[:count]


def choose_ensemble(
    placement: Placement, writable: Sequence[str], ensemble_size: int
) -> tuple[str, ...]:
    """An ensemble of the writable bookies.  Raises `BKNotEnoughBookiesException`."""
    if len(writable) < ensemble_size:
        raise BKNotEnoughBookiesException(
            f"an ensemble of {ensemble_size} bookies is wanted, {len(writable)} take writes"
            f" ({', '.join(writable) or 'none'}); start more bookies or ask for a smaller ensemble"
        )
    return tuple(placement(writable, ensemble_size))
