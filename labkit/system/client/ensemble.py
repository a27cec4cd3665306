"""Segments: how a ledger's ensembles follow each other when bookies fail.

In BookKeeper: `client/EnsembleUtils.java`, `LedgerHandle.ensembleChangeLoop`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from labkit.system.model.ledger import LedgerMetadata, Segment


def first_of_new_segment(last_add_confirmed: int) -> int:
    """Where a new ensemble begins: behind what is confirmed, not at the entry that failed.

    All unconfirmed entries move to the new ensemble, even those that some bookies have.
    """
    return last_add_confirmed + 1


def with_ensemble(
    metadata: LedgerMetadata, first_entry_id: int, ensemble: Sequence[str]
) -> LedgerMetadata:
    """The ledger with this ensemble from `first_entry_id` on; drops the creation token.

    A last segment that begins there, too, is replaced: no entry of it was confirmed.
    """
    assert metadata.segments[-1].first_entry_id <= first_entry_id, (
        f"a segment from entry {first_entry_id} on would begin before the last one"
    )
    earlier = [s for s in metadata.segments if s.first_entry_id < first_entry_id]
    segments = (*earlier, Segment(first_entry_id, tuple(ensemble)))
    return replace(metadata, segments=segments, c_token=0)


def still_placed(ensemble: Sequence[str], failed: Mapping[int, str]) -> dict[int, str]:
    """Those of the failed bookies that still have their place in the ensemble."""
    return {place: bookie for place, bookie in failed.items() if ensemble[place] == bookie}


def with_replacements(ensemble: Sequence[str], replacements: Mapping[int, str]) -> tuple[str, ...]:
    """The ensemble with other bookies at some places; the others keep theirs."""
    return tuple(replacements.get(place, bookie) for place, bookie in enumerate(ensemble))
