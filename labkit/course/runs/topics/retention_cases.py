"""Topics whose retention policies delete some ledgers. The topics are real managed ledgers in a
simulated cluster.
"""

import asyncio
from dataclasses import dataclass

from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.names import full_name, managed_ledger_path
from labkit.worlds.sim.nodes.nodes import ClientNode

UNREAD = (
    "A ledger must be kept as long as a subscription has not acknowledged all of it: otherwise,"
    " the subscription loses messages."
)
AT_ONCE = "Without retention (0 and 0), a ledger is deleted as soon as it has been consumed."
NO_LIMIT = "-1 means no limit: it keeps every ledger."
BY_TIME = (
    "A ledger that was closed longer ago than the retention time can be deleted, even if there is"
    " no size limit."
)
BY_SIZE = (
    "A ledger can be deleted if the topic keeps enough bytes without it, no matter how young the"
    " ledger is."
)


@dataclass(frozen=True, slots=True)
class Trim:
    """A topic of five ledgers, each with two entries of 100 bytes, except that the last ledger is
    open and empty.

    The subscription has acknowledged `acked` entries. The first two ledgers are `pause_s` seconds
    older than the others. `rule` explains why ledgers that no subscription needs are deleted or
    kept.
    """

    retention_ms: int
    retention_bytes: int
    acked: int
    pause_s: float
    rule: str


TRIMS = (
    Trim(0, 0, 4, 1, AT_ONCE),
    Trim(0, 0, 3, 1, AT_ONCE),
    Trim(10_000, 500, 0, 15, BY_TIME),
    Trim(0, 0, 8, 1, AT_ONCE),
    Trim(-1, -1, 8, 15, NO_LIMIT),
    Trim(10_000, -1, 8, 15, BY_TIME),
    Trim(-1, 500, 8, 1, BY_SIZE),
    Trim(10_000, 500, 8, 1, BY_SIZE),
    Trim(10_000, 0, 8, 1, BY_SIZE),
)


@dataclass(frozen=True, slots=True)
class TrimmedTopic:
    """A topic's chain before trimming, the ledgers that labkit would delete, and the ledgers that
    were deleted.
    """

    trim: Trim
    links: tuple[LedgerInfo, ...]
    now_ms: int
    expected: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()

    def __str__(self) -> str:
        trim = self.trim
        return "\n".join(
            (
                f"retention {trim.retention_ms} ms, {trim.retention_bytes} bytes;"
                f" {trim.acked} of 8 entries acknowledged",
                *map(self._line, range(len(self.links) - 1)),
            )
        )

    def _line(self, index: int) -> str:
        link = self.links[index]
        consumed = "consumed" if self.trim.acked >= 2 * index + 2 else "not consumed"
        age_s = (self.now_ms - link.closed_at_ms) // 1000
        fate = "gone" if link.ledger_id in self.gone else "kept"
        if (link.ledger_id in self.gone) != (link.ledger_id in self.expected):
            fate += ", and should be " + ("kept" if fate == "gone" else "gone")
        return (
            f"  ledger {index}: {link.size_bytes} bytes, closed {age_s} s ago, {consumed}: {fate}"
        )


async def trim_all(node: ClientNode) -> tuple[TrimmedTopic, ...]:
    """Fill each topic, acknowledge messages, trim the topic, and record which ledgers remain."""
    return tuple([await _trim(node, number, trim) for number, trim in enumerate(TRIMS)])


async def _trim(node: ClientNode, number: int, trim: Trim) -> TrimmedTopic:
    config = ManagedLedgerConfig(
        max_entries_per_ledger=2,
        retention_time_ms=trim.retention_ms,
        retention_size_bytes=trim.retention_bytes,
    )
    path = managed_ledger_path(full_name(f"t{number}"))
    ledger = ManagedLedger(f"t{number}", path, node.client, config)
    await ledger.open()
    cursor = await ledger.open_cursor("subscription", (ledger.ledgers[0].ledger_id, 0))
    positions, links = [], dict[int, LedgerInfo]()
    for entry in range(8):
        if entry == 4:
            await asyncio.sleep(trim.pause_s)
        positions.append(await (await ledger.append(bytes(100))))
        await asyncio.sleep(0.01)
        links.update((link.ledger_id, link) for link in ledger.ledgers)
    await asyncio.sleep(1)
    cursor.acknowledge(positions[: trim.acked])
    await cursor.flush()
    await ledger.trim()
    links.update((link.ledger_id, link) for link in ledger.ledgers if link.closed_at_ms)
    left = {link.ledger_id for link in ledger.ledgers}
    gone = tuple(ledger_id for ledger_id in links if ledger_id not in left)
    now_ms = node.wall_clock_ms()
    await ledger.close()
    return TrimmedTopic(trim, tuple(links.values()), now_ms, gone=gone)
