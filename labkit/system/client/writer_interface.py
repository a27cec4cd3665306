"""The part of `LedgerWriter` that `ensemble_change` and `fence_check` use.

`writer` imports both modules, so they cannot import `writer`.
"""

from collections import deque
from typing import Protocol

from labkit.system.client.pending_add import PendingAdd
from labkit.system.client.protocol.protocol_v2 import PerChannelBookieClientV2
from labkit.system.model.errors import LabkitError
from labkit.system.model.ledger import LedgerMetadata


class WriterInterface(Protocol):
    """See `LedgerWriter`. Only `worlds/sim/variants` uses `last_add_pushed`."""

    ledger_id: int
    metadata: LedgerMetadata
    last_add_confirmed: int
    last_add_pushed: int
    pending: deque[PendingAdd]
    channels: list[PerChannelBookieClientV2]

    @property
    def is_ended(self) -> bool: ...
    @property
    def ensemble(self) -> tuple[str, ...]: ...
    def end(self, error: LabkitError) -> None: ...
    async def update_metadata(self, metadata: LedgerMetadata) -> bool: ...
    def connect_to_last_ensemble(self) -> None: ...
    def send(self, pending: PendingAdd, index: int) -> None: ...
    def has_enough_acks(self, pending: PendingAdd) -> bool: ...
    def complete_adds(self) -> None: ...
