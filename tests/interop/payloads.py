"""Payloads of various sizes, including an empty one, and ledgers that contain them."""

from collections.abc import Sequence

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.entry import DigestType

PASSWORD = b"pw"
PAYLOADS = [b"", *(b"entry %d " % number * (1 + number % 100) for number in range(1, 300))]
LAST_ENTRY_ID = len(PAYLOADS) - 1
LENGTH = sum(map(len, PAYLOADS))


async def write(
    client: BookKeeper,
    *quorums: int,
    payloads: Sequence[bytes] = PAYLOADS,
    digest_type: DigestType = DigestType.CRC32C,
) -> LedgerWriter:
    """Write the payloads to a new ledger and leave it open."""
    writer = await client.create_ledger(*quorums, digest_type=digest_type, password=PASSWORD)
    for payload in payloads:
        writer.add(payload)
    await writer.all_confirmed()
    return writer


async def read(client: BookKeeper, ledger_id: int) -> list[bytes]:
    """Return the ledger's payloads up to its LastAddConfirmed."""
    reader = await client.open_ledger_no_recovery(ledger_id, password=PASSWORD)
    return [entry.payload async for entry in reader.read()]
