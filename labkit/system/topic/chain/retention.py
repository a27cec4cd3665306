"""The rule that says which ledgers of a chain may be deleted.

A decision, and nothing else: it uses no clock, cursor or store.

In Pulsar: `ManagedLedgerImpl.internalTrimLedgers`.
"""

from collections.abc import Sequence

from labkit.system.topic.chain.chain import LedgerInfo, Position
from labkit.system.topic.config import UNLIMITED, ManagedLedgerConfig


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
