"""The ledgers to read: those of a topic's partitions, or those that the query names.

A lane is a partition of a topic, or one of the named ledgers, and is read in order.  Its number is
the partition's index, or the ledger's id.
"""

import asyncio
import re
from bisect import bisect_left, bisect_right
from dataclasses import replace
from difflib import get_close_matches

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reader import LedgerReader
from labkit.system.metadata.store import NoNodeError
from labkit.system.model.errors import (
    BKNoSuchLedgerExistsOnMetadataServerException,
    BKReadException,
    LabkitError,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.system.topic.chain.chain import LedgerInfo
from labkit.system.topic.chain.chain_store import read_chain
from labkit.system.topic.names import decoded, managed_ledger_path, partition_name, partition_of
from labkit.system.topic.topic import NoTopicError, partition_count
from labkit.views.spark.bookkeeper.cluster import UNREACHABLE, retried
from labkit.views.spark.bookkeeper.options import NO_END, OptionError, Options
from labkit.views.spark.bookkeeper.spans import KnownLedger

Chains = dict[int, list[LedgerInfo]]
"""The ledgers of each lane, oldest first."""

_PARTITION = re.compile(r"-partition-\d+$")
AT_ONCE = 64
"""Ledgers that are looked up together."""
_SHOWN = 5


class LedgerGoneError(LabkitError):
    """A ledger of the query no longer exists: it was deleted, or trimmed from its topic."""


class LedgerDirectory:
    """Looks up ledgers; a closed ledger never changes, so it is looked up only once."""

    def __init__(self, client: BookKeeper, options: Options) -> None:
        self.client = client
        self._options = options
        self._closed: dict[int, KnownLedger] = {}
        self._few = asyncio.Semaphore(AT_ONCE)

    async def chains(self) -> Chains:
        """The lanes.  Raises `OptionError` for a topic that does not exist, `LedgerGoneError` for
        ledgers.
        """
        if self._options.topic:
            return await self._chains_of_topic(self._options.topic)
        ids = await self.client.list_ledgers()
        return {ledger_id: [LedgerInfo(ledger_id)] for ledger_id in self._named(ids)}

    async def known(self, info: LedgerInfo) -> KnownLedger | None:
        """The ledger as it is now; None if it is gone and option `failOnDataLoss` is false.

        Raises `LedgerGoneError`, and `BKReadException` when too few bookies report how far an open
        ledger is confirmed.
        """
        found = self._closed.get(info.ledger_id)
        if found is None:
            # A range may name thousands of ledgers, and each open one asks its bookies.
            async with self._few:
                found = await self._look_up(info.ledger_id)
        if found is None:
            return None
        if found.metadata.state is LedgerState.CLOSED:
            self._closed[info.ledger_id] = found
        return found

    async def _look_up(self, ledger_id: int) -> KnownLedger | None:
        try:
            metadata = await self.client.ledger_metadata(ledger_id)
        except BKNoSuchLedgerExistsOnMetadataServerException:
            if not self._options.fail_on_data_loss:
                return None
            raise LedgerGoneError(gone(ledger_id)) from None
        metadata = self._with_password(ledger_id, metadata)
        # Not the client's own open, which would ask bookies, and might not use this password.
        reader = LedgerReader(ledger_id, metadata, self.client.context)
        if reader.is_closed:
            return KnownLedger(ledger_id, metadata, metadata.last_entry_id, metadata.length)
        if self._options.closed_only:
            return KnownLedger(ledger_id, metadata, -1, 0)

        async def ask_bookies() -> tuple[int, int]:
            last = await reader.read_explicit_last_add_confirmed()
            return last, (await reader.read_entry(last)).length if last >= 0 else 0

        # It raises a read error when too few bookies answer.
        errors = (*UNREACHABLE, BKReadException)
        last, length = await retried(ask_bookies, errors, self._options.retry_s)
        return KnownLedger(ledger_id, reader.metadata, last, length)

    def _with_password(self, ledger_id: int, metadata: LedgerMetadata) -> LedgerMetadata:
        """Raises `OptionError` for a wrong password, with which every digest would seem wrong."""
        password = self._options.password
        if metadata.has_password and metadata.password != password:
            problem = "has another one" if password else "has one, and none is given"
            raise OptionError(f"option 'password': ledger {ledger_id} {problem}")
        return replace(metadata, password=password)

    async def _chains_of_topic(self, topic: str) -> Chains:
        try:
            count = await partition_count(self.client, topic)
        except NoTopicError:
            return {partition_of(topic): await self._chain_alone(topic)}
        names = [partition_name(topic, partition) for partition in range(count)]
        paths = [managed_ledger_path(name) for name in names]
        read = await asyncio.gather(*(read_chain(self.client, path) for path in paths))
        return {partition: chain for partition, (chain, _) in enumerate(read)}

    async def _chain_alone(self, topic: str) -> list[LedgerInfo]:
        chain, version = await read_chain(self.client, managed_ledger_path(topic))
        if version < 0:
            raise OptionError(
                f"option 'topic': there is no topic {topic} in the cluster at"
                f" {self._options.metadata}; that namespace has {await self._topics_beside(topic)}"
            )
        return chain

    async def _topics_beside(self, topic: str) -> str:
        """Some topics of the same namespace, for a user who mistyped one."""
        folder = managed_ledger_path(topic).rpartition("/")[0]
        try:
            names = await self.client.store.children(folder)
        except NoNodeError:
            names = []
        # A query names a partitioned topic, not one partition.
        names = list(dict.fromkeys(_PARTITION.sub("", decoded(name)) for name in sorted(names)))
        near = get_close_matches(topic.rpartition("/")[2], names) or names[:_SHOWN] or ["none"]
        return f"{', '.join(near)} and others" if len(names) > len(near) else ", ".join(near)

    def _named(self, ids: list[int]) -> list[int]:
        """The ledgers that the query names, in ascending order."""
        ranges = self._options.ledgers
        # Sorted, so that each range finds its ledgers by bisection: a query may have thousands.
        ids = sorted(ids)
        parts = [ids[bisect_left(ids, first) : bisect_right(ids, last)] for first, last in ranges]
        found = sorted({ledger_id for part in parts for ledger_id in part})
        if found and not self._options.fail_on_data_loss:
            return found
        for (first, last), part in zip(ranges, parts, strict=True):
            if not part:
                there = f"there are {ids[0]} to {ids[-1]}" if ids else "there is none at all"
                what = f"no ledger {first}" if first == last else f"none of ledgers {first}-{last}"
                what = f"no ledger from {first} on" if last == NO_END else what
                raise LedgerGoneError(
                    f"option 'ledgers': there is {what} in the cluster at"
                    f" {self._options.metadata}; {there}. To read what is left of the named"
                    " ledgers, set option 'failOnDataLoss' to 'false'"
                )
        return found


def gone(ledger_id: int) -> str:
    """The message for a ledger that no longer exists."""
    return (
        f"ledger {ledger_id} was deleted, or trimmed from its topic, and its messages are lost to"
        " this query: keep ledgers longer (the topic's retention, or a subscription). For what is"
        " left call load() again (a DataFrame keeps its plan), or set option 'failOnDataLoss' to"
        " 'false'"
    )
