"""The rule that decides when a ledger is full.

In Pulsar: `ManagedLedgerImpl.currentLedgerIsFull`.
"""

from typing import NamedTuple

from labkit.system.topic.config import ManagedLedgerConfig


class Rollover(NamedTuple):
    """The reason for switching to a new ledger: a keyword, and a readable explanation."""

    detail: str
    explanation: str


def rollover_reason(
    entry_count: int, size_bytes: int, age_ms: int, config: ManagedLedgerConfig
) -> Rollover | None:
    """Return why the ledger is full, or None if it is not.

    An empty ledger is never full. If a minimum age is set, the ledger of a busy topic can far
    exceed the other limits.
    """
    if not entry_count or (config.min_ledger_age_ms and age_ms <= config.min_ledger_age_ms):
        return None
    if entry_count >= config.max_entries_per_ledger:
        return Rollover("entries", f"{entry_count} entries")
    if size_bytes >= config.max_ledger_size_bytes:
        return Rollover("size", f"{size_bytes} bytes")
    is_old = age_ms >= config.max_ledger_age_ms
    return Rollover("age", f"{age_ms} ms old") if is_old else None
