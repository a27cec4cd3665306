"""Provides the names that `myclient.py` imports, namely the cluster, ledger metadata, and
BookKeeper's exceptions.
"""

from labkit.course.workshop.client.cluster import Cluster
from labkit.course.workshop.client.ledgers import Ledgers
from labkit.system.model.entry import NO_ENTRY_ID, Entry
from labkit.system.model.errors import (
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
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment

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
