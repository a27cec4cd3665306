"""One change of a ledger's metadata: stored unless another client was first, and traced.

In BookKeeper: `client/MetadataUpdateLoop.java`.
"""

from dataclasses import replace

from labkit.system.client.context import ClientContext
from labkit.system.model.errors import BKMetadataVersionException
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment


async def publish(
    ledger_id: int,
    known: LedgerMetadata,
    version: int,
    wanted: LedgerMetadata,
    context: ClientContext,
) -> tuple[bool, LedgerMetadata, int]:
    """Compare-and-set: whether `wanted` was stored, and what is stored now with its version.

    A caller that was not first decides again.  Raises what `LedgerManager.write` raises but
    `BKMetadataVersionException`; whether it was stored is unknown after
    `MetadataUnavailableError`.
    """
    try:
        version = await context.manager.write(ledger_id, wanted, version)
    except BKMetadataVersionException:
        # Read here, so that the caller decides again on what is stored now.
        stored, version = await context.manager.read(ledger_id)
        if not stored.has_password:
            stored = replace(stored, digest_type=known.digest_type, password=known.password)
        # Among them may be its own, stored by a write whose answer was lost.
        _record_ensembles(ledger_id, known.segments, stored, context)
        return False, stored, version
    _record_ensembles(ledger_id, known.segments, wanted, context)
    if wanted.state is LedgerState.CLOSED:
        last, length = wanted.last_entry_id, wanted.length
        context.recorder.record("ledger.closed", ledger_id, last, size=length)
    return True, wanted, version


def _record_ensembles(
    ledger_id: int, before: tuple[Segment, ...], after: LedgerMetadata, context: ClientContext
) -> None:
    for segment in after.segments:
        if segment not in before:
            first, names = segment.first_entry_id, ",".join(segment.ensemble)
            context.recorder.record("ensemble.set", ledger_id, first, note=names)
