"""When a ledger is full.

In Pulsar: `ManagedLedgerImpl.currentLedgerIsFull`.
"""

from labkit.system.topic.config import ManagedLedgerConfig


def rollover_reason(
    entry_count: int, size_bytes: int, age_ms: int, config: ManagedLedgerConfig
) -> str:
    """Why the ledger is full; empty if it is not.

    An empty ledger never is.  A fast topic's ledger passes its limits by far where it has to reach
    a minimum age.
    """
    if not entry_count or (config.min_ledger_age_ms and age_ms <= config.min_ledger_age_ms):
        return ""
    if entry_count >= config.max_entries_per_ledger:
        return f"{entry_count} entries"
    if size_bytes >= config.max_ledger_size_bytes:
        return f"{size_bytes} bytes"
    return f"{age_ms} ms old" if age_ms >= config.max_ledger_age_ms else ""
