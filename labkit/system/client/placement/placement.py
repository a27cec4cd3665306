"""Placement: which bookies become an ensemble, and which one replaces a member that failed.

In BookKeeper: `client/DefaultEnsemblePlacementPolicy.java` (random choice), `EnsembleUtils.java`.
"""

from collections.abc import Callable, Container, Mapping, Sequence

from labkit.system.model.errors import BKNotEnoughBookiesException

Placement = Callable[[Sequence[str], int], Sequence[str]]
"""Takes `count` of the bookies given, in the order in which they make the ensemble.

At least `count` are given; a placement that enforces a rule may take fewer.
"""


def in_name_order(bookies: Sequence[str], count: int) -> Sequence[str]:
    """The first by name: for lessons, whose pictures must not change between runs."""
    return sorted(bookies)[:count]


def choose_ensemble(
    placement: Placement,
    writable: Sequence[str],
    ensemble_size: int,
    quarantined: Container[str] = (),
) -> tuple[str, ...]:
    """An ensemble of the writable bookies.  Raises `BKNotEnoughBookiesException`.

    Quarantined ones are taken only when there are not enough others.
    """
    if len(writable) < ensemble_size:
        raise BKNotEnoughBookiesException(
            f"an ensemble of {ensemble_size} bookies is wanted, {len(writable)} take writes"
            f" ({', '.join(writable) or 'none'}); start more bookies or ask for a smaller ensemble"
        )
    trusted = [bookie for bookie in writable if bookie not in quarantined]
    chosen = placement(trusted, ensemble_size) if len(trusted) >= ensemble_size else ()
    # Rather a bookie that failed lately than no ledger.
    chosen = chosen or placement(writable, ensemble_size)
    if len(chosen) < ensemble_size:
        raise BKNotEnoughBookiesException(
            f"of {len(writable)} bookies that take writes no {ensemble_size} make an ensemble over"
            " as many racks as enforceMinNumRacksPerWriteQuorum wants; start bookies in other"
            " racks, or say in which rack each one stands"
        )
    return tuple(chosen)


def choose_replacements(
    placement: Placement,
    writable: Sequence[str],
    ensemble: Container[str],
    failed: Mapping[int, str],
    quarantined: Container[str] = (),
) -> dict[int, str]:
    """A new bookie for each failed place, or for as many places as there are bookies.

    Quarantined ones are taken only when there are not enough others.
    """
    candidates = [bookie for bookie in writable if bookie not in ensemble]
    trusted = [bookie for bookie in candidates if bookie not in quarantined]
    doubtful = [bookie for bookie in candidates if bookie in quarantined]
    chosen = list(placement(trusted, min(len(failed), len(trusted))))
    chosen += placement(doubtful, min(len(failed) - len(chosen), len(doubtful)))
    return dict(zip(sorted(failed), chosen, strict=False))
