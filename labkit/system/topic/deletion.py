"""Deletes a closed topic. One write makes the deletion final, and all later steps can be repeated.

    marked      the chain's node gets a property, and from then on, the topic can only be deleted: a
                previous owner fails when it next changes the chain, no owner can open the chain,
                and a broker that finds the mark completes the deletion before it opens the topic
    deleted     the cursors are deleted with their ledgers, then the chain's ledgers, and finally
                the chain's node

So after a crash, the topic is intact, marked or deleted. A ledger is deleted before the node that
refers to it, so that a repeated deletion still finds the ledger.

In Pulsar: `managed-ledger/.../ManagedLedgerImpl.java` (`asyncDelete`), which deletes in the same
order, but without a mark.
"""

from contextlib import suppress

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.store import BadVersionError, MetadataStore, NoNodeError, NotEmptyError
from labkit.system.topic.chain.formats import (
    DamagedNodeError,
    decode_chain,
    is_marked_for_deletion,
    with_deletion_mark,
)
from labkit.system.topic.chain.guarded_node import fenced_error
from labkit.system.topic.chain.ledgers import delete_ledger
from labkit.system.topic.cursors.formats import IN_NODE, decode_cursor_node
from labkit.system.topic.names import managed_ledger_path


async def is_marked(store: MetadataStore, name: str) -> bool:
    """Raise `DamagedNodeError` if the chain cannot be decoded."""
    with suppress(NoNodeError):
        data, _ = await store.get(managed_ledger_path(name))
        return is_marked_for_deletion(data)
    return False


async def mark(store: MetadataStore, name: str, *, replace_if_damaged: bool = False) -> None:
    """Mark a closed topic for deletion.

    With `replace_if_damaged`, overwrite a chain that cannot be decoded, and leak its ledgers.
    Otherwise, such a chain raises `DamagedNodeError`. Raises `NoNodeError` if the topic does not
    exist, and `ManagedLedgerFencedError` if another broker opens the topic at the same time.
    """
    path = managed_ledger_path(name)
    data, version = await store.get(path)
    try:
        marked = with_deletion_mark(data, marked=True)
    except DamagedNodeError:
        if not replace_if_damaged:
            raise
        marked = with_deletion_mark(b"", marked=True)
    await _replace(store, path, marked, version)


async def unmark(store: MetadataStore, name: str) -> None:
    """Remove the mark. Raises `NoNodeError`, `DamagedNodeError` and `ManagedLedgerFencedError`."""
    path = managed_ledger_path(name)
    data, version = await store.get(path)
    if is_marked_for_deletion(data):
        await _replace(store, path, with_deletion_mark(data, marked=False), version)


async def _replace(store: MetadataStore, path: str, data: bytes, version: int) -> None:
    try:
        await store.set(path, data, version)
    except BadVersionError:
        raise fenced_error(f"the chain at {path}") from None


async def delete_marked(client: BookKeeper, name: str) -> None:
    """Delete a marked topic's cursors, ledgers and node. Do nothing if it is not marked.

    Raises `ManagedLedgerFencedError` if another broker has opened the topic despite the mark, and
    `MetadataUnavailableError` if the metadata store does not respond.
    """
    path = managed_ledger_path(name)
    try:
        data, version = await client.store.get(path)
        cursors = await client.store.children(path)
    except NoNodeError:
        return  # Another deletion has already finished.
    if not is_marked_for_deletion(data):
        return  # Another deletion has finished, and the topic was created again.
    for cursor in cursors:
        await _delete_cursor(client, f"{path}/{cursor}")
    for link in decode_chain(data):
        await delete_ledger(client, link.ledger_id)
    try:
        await client.store.delete(path, version)
    except (BadVersionError, NotEmptyError):
        raise fenced_error(f"the chain at {path}") from None
    except NoNodeError:
        pass


async def _delete_cursor(client: BookKeeper, path: str) -> None:
    with suppress(NoNodeError):
        data, _ = await client.store.get(path)
        # A damaged node does not reveal its ledger.
        with suppress(DamagedNodeError):
            if (ledger_id := decode_cursor_node(data).ledger_id) != IN_NODE:
                await delete_ledger(client, ledger_id)
        await client.store.delete(path)
