"""What `myclient.py` imports: the cluster, and the words of BookKeeper that it speaks in."""

from labkit.model.entry import NO_ENTRY_ID, Entry
from labkit.model.errors import (
    PROVES_ABSENCE,
    BKException,
    BKLedgerClosedException,
    BKLedgerFencedException,
    BKLedgerRecoveryException,
    BKMetadataVersionException,
    BKNotEnoughBookiesException,
    BKReadException,
    LabkitError,
)
from labkit.model.ledger import LedgerMetadata, LedgerState, Segment
from labkit.workshop.client.cluster import Cluster
from labkit.workshop.client.ledgers import Ledgers

__all__ = [
    "NO_ENTRY_ID",
    "PROVES_ABSENCE",
    "BKException",
    "BKLedgerClosedException",
    "BKLedgerFencedException",
    "BKLedgerRecoveryException",
    "BKMetadataVersionException",
    "BKNotEnoughBookiesException",
    "BKReadException",
    "Cluster",
    "Entry",
    "LabkitError",
    "LedgerMetadata",
    "LedgerState",
    "Ledgers",
    "Segment",
]
