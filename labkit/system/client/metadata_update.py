"""Compare-and-set of a ledger's metadata, recorded in the trace.

If another client has changed the metadata first, each caller reacts differently:

    ensemble change    retry while the ledger is OPEN, else end the writer (`EnsembleChange`)
    writer's close     retry until the ledger is CLOSED; it must end at the writer's last entry
    recovery's mark    retry while the ledger is OPEN
    recovery's close   retry until the ledger is CLOSED; the first client to close it decides the
                       last entry

In BookKeeper: `client/MetadataUpdateLoop.java`.
"""

from dataclasses import replace
from functools import partial

from labkit.system.client.context import ClientContext
from labkit.system.metadata.store import send_again_if_lost
from labkit.system.model.errors import BKMetadataVersionException
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment


async def compare_and_set(
    ledger_id: int,
    current: LedgerMetadata,
    version: int,
    wanted: LedgerMetadata,
    context: ClientContext,
) -> tuple[bool, LedgerMetadata, int]:
    """Store `wanted` if the stored metadata still has `version`, the version of `current`.

    Returns whether `wanted` was stored, and the metadata that is now stored, with its version. If a
    lost response causes the request to be sent twice, the second request can fail because the first
    one succeeded. The result is then False, although the returned metadata equals `wanted`.

    Raises the errors of `LedgerManager.write`, except `BKMetadataVersionException`. After
    `MetadataUnavailableError`, it is unknown whether `wanted` was stored.
    """
    write = partial(context.manager.write, ledger_id, wanted, version)
    try:
        version = await send_again_if_lost(write)
    except BKMetadataVersionException:
        stored, version = await context.manager.read(ledger_id)
        stored = with_credentials(stored, current)
        # If the response to an earlier write was lost, this client may have stored the new ensemble
        # itself.
        _record_new_ensembles(ledger_id, current.segments, stored, context)
        return False, stored, version
    _record_new_ensembles(ledger_id, current.segments, wanted, context)
    if wanted.state is LedgerState.CLOSED:
        last, length = wanted.last_entry_id, wanted.length
        context.recorder.record("ledger.closed", ledger_id, last, size=length)
    return True, wanted, version


def with_credentials(stored: LedgerMetadata, known: LedgerMetadata) -> LedgerMetadata:
    """Add the digest type and the password, which version 1 of the metadata does not store."""
    if stored.has_password:
        return stored
    return replace(stored, digest_type=known.digest_type, password=known.password)


def _record_new_ensembles(
    ledger_id: int, before: tuple[Segment, ...], after: LedgerMetadata, context: ClientContext
) -> None:
    for segment in after.segments:
        if segment not in before:
            first, ensemble = segment.first_entry_id, segment.ensemble
            context.recorder.record("ensemble.set", ledger_id, first, ensemble=ensemble)
