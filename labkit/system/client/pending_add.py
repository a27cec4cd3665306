"""An entry that was pushed but is not yet confirmed (with deferred sync: not yet acknowledged).

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
    """Kept so that a replacement bookie can be sent exactly the same bytes."""
    future: asyncio.Future[int]
    """Resolves to the entry id when the entry is confirmed or, with deferred sync, acknowledged."""
    acked: int = 0
    """Bit mask of the ensemble indices whose bookies have acknowledged the entry."""
    failed: int = 0
    """Bit mask of the ensemble indices whose bookies have failed to store it."""
