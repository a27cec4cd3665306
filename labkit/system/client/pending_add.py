"""An entry between `add` and its confirmation.

In BookKeeper: `client/PendingAddOp.java`.
"""

import asyncio
from dataclasses import dataclass


@dataclass(slots=True)
class PendingAdd:
    """An entry on its way; `acked` and `failed` have one bit for each place in the ensemble.

    `length` counts the ledger's payload bytes up to and with this entry.  `request` is kept: a
    bookie that replaces another one gets the same bytes.
    """

    entry_id: int
    length: int
    request: bytes
    confirmed: asyncio.Future[int]
    acked: int = 0
    failed: int = 0
