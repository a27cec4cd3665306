"""Creates and deletes the ledgers of chains, cursors and schemas, with Pulsar's metadata.

In Pulsar: `managed-ledger/.../util/LedgerMetadataUtils.java`.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import BKNoSuchLedgerExistsOnMetadataServerException, LabkitError
from labkit.system.topic.config import ManagedLedgerConfig

T = TypeVar("T")


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


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Wait until the work is done, even if the caller is cancelled; then raise `CancelledError`.

    Otherwise, a cancelled caller would leave behind a new ledger that no node refers to.
    """
    task = asyncio.get_running_loop().create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(LabkitError):
            await task
        raise


async def delete_ledger(client: BookKeeper, ledger_id: int) -> None:
    """Delete a ledger if it exists. Raises `MetadataUnavailableError`."""
    with suppress(BKNoSuchLedgerExistsOnMetadataServerException):
        await client.delete_ledger(ledger_id)


async def try_to_delete_ledger(client: BookKeeper, ledger_id: int) -> bool:
    """Delete a ledger if it exists. Return False if the metadata store did not respond."""
    try:
        await delete_ledger(client, ledger_id)
    except MetadataUnavailableError:
        return False
    return True
