"""An entry that has been pushed but is not yet confirmed (with deferred sync: acknowledged).

In BookKeeper: `client/PendingAddOp.java`.
"""

import asyncio
from dataclasses import dataclass


@dataclass(slots=True)
class PendingAdd:
    entry_id: int
    length: int
    """The number of payload bytes in the ledger up to and including this entry."""
    request: bytes
    """Kept so that exactly the same bytes can be sent to a replacement bookie."""
    future: asyncio.Future[int]
    """Resolves to the entry id when the entry is confirmed or, with deferred sync, acknowledged."""
    acked: int = 0
    """Bit mask of the ensemble indices whose bookies have acknowledged the entry."""
    failed: int = 0
    """Bit mask of the ensemble indices whose bookies have failed to store it."""
