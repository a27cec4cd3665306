"""Chooses the bookies of an ensemble, and replacements for failed ones.

In BookKeeper: `client/DefaultEnsemblePlacementPolicy.java` (random choice), `EnsembleUtils.java`.
"""

from collections.abc import Callable, Container, Mapping, Sequence

from labkit.system.model.errors import BKNotEnoughBookiesException

Placement = Callable[[Sequence[str], int], Sequence[str]]
"""Called with bookies and a `count`. Returns `count` of these bookies in ensemble order, or fewer
if it enforces a rule that it cannot satisfy.
"""


def in_name_order(bookies: Sequence[str], count: int) -> Sequence[str]:
    """Choose the same bookies in every run, so that the plots in lessons do not change."""
    return sorted(bookies)[:count]


def choose_ensemble(
    placement: Placement,
    writable: Sequence[str],
    ensemble_size: int,
    quarantined: Container[str] = (),
) -> tuple[str, ...]:
    """Choose an ensemble. Use quarantined bookies only if there are not enough others.

    Raises `BKNotEnoughBookiesException`.
    """
    if len(writable) < ensemble_size:
        raise BKNotEnoughBookiesException(
            f"an ensemble needs {ensemble_size} writable bookies, but there are only"
            f" {len(writable)} ({', '.join(writable) or 'none'}); start more bookies or use a"
            " smaller ensemble"
        )
    trusted = [bookie for bookie in writable if bookie not in quarantined]
    chosen = placement(trusted, ensemble_size) if len(trusted) >= ensemble_size else ()
    # Using a bookie that failed recently is better than not creating the ledger at all.
    chosen = chosen or placement(writable, ensemble_size)
    if len(chosen) < ensemble_size:
        raise BKNotEnoughBookiesException(
            f"no {ensemble_size} of the {len(writable)} writable bookies form an ensemble that"
            " spans enough racks for enforceMinNumRacksPerWriteQuorum; start bookies in other"
            " racks, or assign racks to the existing ones"
        )
    return tuple(chosen)


def choose_replacements(
    placement: Placement,
    writable: Sequence[str],
    ensemble: Container[str],
    failed: Mapping[int, str],
    doubtful: Container[str] = (),
) -> dict[int, str]:
    """Like `BookieWatcher.replacements`; use `doubtful` bookies only as a last resort."""
    candidates = [bookie for bookie in writable if bookie not in ensemble]
    trusted = [bookie for bookie in candidates if bookie not in doubtful]
    others = [bookie for bookie in candidates if bookie in doubtful]
    chosen = list(placement(trusted, min(len(failed), len(trusted))))
    chosen += placement(others, min(len(failed) - len(chosen), len(others)))
    return dict(zip(sorted(failed), chosen, strict=False))
