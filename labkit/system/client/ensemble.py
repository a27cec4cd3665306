"""Computes how a ledger's segments change when failed bookies are replaced.

In BookKeeper: `client/EnsembleUtils.java`, `LedgerHandle.ensembleChangeLoop`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from labkit.system.model.ledger import LedgerMetadata, Segment


def end_of_segment(metadata: LedgerMetadata, entry_id: int) -> int | None:
    """Return the first entry of the next segment, or None if this entry is in the last segment."""
    starts = (s.first_entry_id for s in metadata.segments)
    return next((start for start in starts if start > entry_id), None)


def with_ensemble(
    metadata: LedgerMetadata, first_entry_id: int, ensemble: Sequence[str]
) -> LedgerMetadata:
    """Return metadata in which a segment with this ensemble starts at `first_entry_id`.

    If the last segment also starts there, it is replaced, because none of its entries were
    confirmed.
    """
    last_start = metadata.segments[-1].first_entry_id
    assert last_start <= first_entry_id, (
        f"the new segment starts at entry {first_entry_id}, before the last one ({last_start})"
    )
    earlier = [s for s in metadata.segments if s.first_entry_id < first_entry_id]
    segments = (*earlier, Segment(first_entry_id, tuple(ensemble)))
    return replace(metadata, segments=segments, c_token=0)


def still_in_ensemble(ensemble: Sequence[str], failed: Mapping[int, str]) -> dict[int, str]:
    """Return the failed bookies that are still in the ensemble, keyed by ensemble index."""
    return {index: bookie for index, bookie in failed.items() if ensemble[index] == bookie}


def with_replacements(ensemble: Sequence[str], replacements: Mapping[int, str]) -> tuple[str, ...]:
    return tuple(replacements.get(index, bookie) for index, bookie in enumerate(ensemble))
