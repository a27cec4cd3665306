"""The rule that decides which ledgers can be deleted.

In Pulsar: `ManagedLedgerImpl.internalTrimLedgers`.
"""

from collections.abc import Sequence

from labkit.system.topic.chain.ledger_chain import LedgerInfo, Position
from labkit.system.topic.config import UNLIMITED, ManagedLedgerConfig


def ledgers_to_delete(
    links: Sequence[LedgerInfo],
    slowest: Position | None,
    now_ms: int,
    config: ManagedLedgerConfig,
) -> list[int]:
    """Return the ids of the ledgers to delete, which are always the first ones in the chain.

    `slowest` is the mark-delete position of the slowest durable cursor. If there is no durable
    cursor, every ledger counts as consumed. A consumed ledger is deleted if it was closed longer
    ago than the retention time, or if the ledgers after it have reached the retention size. The
    last ledger is never deleted.
    """
    limit_ms, limit_bytes = config.retention_time_ms, config.retention_size_bytes
    left = sum(link.size_bytes for link in links)
    deleted: list[int] = []
    for link in links[:-1]:
        left -= link.size_bytes
        consumed = slowest is None or slowest >= (link.ledger_id, link.entry_count - 1)
        is_old = limit_ms != UNLIMITED and now_ms - link.closed_at_ms > limit_ms
        is_too_much = limit_bytes != UNLIMITED and left >= limit_bytes
        if not (consumed and link.closed_at_ms and (is_old or is_too_much)):
            break
        deleted.append(link.ledger_id)
    return deleted
