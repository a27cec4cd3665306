"""Creates and deletes the ledgers of chains, cursors and schemas, with Pulsar's metadata.

In Pulsar: `managed-ledger/.../util/LedgerMetadataUtils.java`.
"""

from contextlib import suppress

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import BKNoSuchLedgerExistsOnMetadataServerException
from labkit.system.topic.config import ManagedLedgerConfig


async def create_ledger(
    client: BookKeeper, config: ManagedLedgerConfig, component: str, **about: str
) -> LedgerWriter:
    """Create a ledger for a component of Pulsar, such as `managed-ledger`."""
    names = {"application": "pulsar", "component": component}
    names |= {f"pulsar/{key.replace('_', '-')}": value for key, value in about.items()}
    return await client.create_ledger(
        config.ensemble_size,
        config.write_quorum,
        config.ack_quorum,
        custom_metadata=tuple((key, value.encode()) for key, value in names.items()),
    )


async def delete_ledger(client: BookKeeper, ledger_id: int) -> bool:
    """Delete a ledger if it exists; return False if the metadata store did not respond."""
    with suppress(BKNoSuchLedgerExistsOnMetadataServerException):
        try:
            await client.delete_ledger(ledger_id)
        except MetadataUnavailableError:
            return False
    return True
