"""The rules of a ledger's life: when it is full, and when it may be deleted.

Decisions, and nothing else: they use no clock, cursor or store.

In Pulsar: `ManagedLedgerImpl.currentLedgerIsFull`, `internalTrimLedgers`.
"""

from collections.abc import Sequence

from labkit.system.topic.chain.chain import LedgerInfo, Position
from labkit.system.topic.config import UNLIMITED, ManagedLedgerConfig


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


def ledgers_to_delete(
    links: Sequence[LedgerInfo],
    slowest: Position | None,
    now_ms: int,
    config: ManagedLedgerConfig,
) -> list[int]:
    """Ids of the ledgers that may go, a run from the chain's beginning.

    `slowest` is the mark-delete position of the slowest durable cursor; None: there is none, and
    nothing waits to be consumed.  Such a ledger goes if it was closed longer ago than the retention
    time, or if the retention size is there without it and those before it.  The last ledger, and
    one that is not closed, never goes.
    """
    left = sum(link.size_bytes for link in links)
    going: list[int] = []
    for link in links[:-1]:
        left -= link.size_bytes
        consumed = slowest is None or _is_behind(link, slowest)
        if not consumed or not link.closed_at_ms or not _is_over(link, left, now_ms, config):
            break
        going.append(link.ledger_id)
    return going


def _is_behind(link: LedgerInfo, slowest: Position) -> bool:
    """Whether the slowest cursor has acknowledged all of the ledger."""
    return slowest >= (link.ledger_id, link.entry_count - 1)


def _is_over(link: LedgerInfo, left: int, now_ms: int, config: ManagedLedgerConfig) -> bool:
    limit_ms, limit_bytes = config.retention_time_ms, config.retention_size_bytes
    is_old = limit_ms != UNLIMITED and now_ms - link.closed_at_ms > limit_ms
    is_too_much = limit_bytes != UNLIMITED and left >= limit_bytes
    return is_old or is_too_much
