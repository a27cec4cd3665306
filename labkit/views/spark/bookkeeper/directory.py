"""Finds the ledgers to read: either the topics' ledgers, or the ledgers listed in the query."""

import asyncio
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from difflib import get_close_matches

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reader import LedgerReader
from labkit.system.metadata.store import NoNodeError
from labkit.system.model.errors import (
    BKNoSuchLedgerExistsOnMetadataServerException,
    BKReadException,
)
from labkit.system.topic.chain.chain_store import read_chain
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.system.topic.names import (
    decode_name,
    managed_ledger_path,
    partition_name,
    partition_of,
    partitions_path,
)
from labkit.system.topic.topic import NoTopicError, partition_count
from labkit.views.spark.bookkeeper.cluster import UNREACHABLE, retry_read
from labkit.views.spark.bookkeeper.opening import LedgerGoneError, read_metadata, report_loss
from labkit.views.spark.bookkeeper.options import NO_END, OptionError, Options
from labkit.views.spark.bookkeeper.spans import Lane, LedgerSnapshot

Chains = dict[Lane, list[LedgerInfo]]
"""The ledgers of each lane, oldest first, so their ids increase."""

_PARTITION = re.compile(r"-partition-\d+$")
_MAX_CONCURRENT_LOOKUPS = 64
"""How many ledgers are looked up concurrently."""
_MAX_SUGGESTIONS = 5


def find_ledger(chain: Sequence[LedgerInfo], ledger_id: int) -> int | None:
    """Return the index of the ledger in the chain, or None if the chain does not contain it."""
    index = bisect_left(chain, ledger_id, key=lambda info: info.ledger_id)
    is_found = index < len(chain) and chain[index].ledger_id == ledger_id
    return index if is_found else None


class LedgerDirectory:
    """Looks up ledgers. Closed ledgers are cached, because they never change, and the chain of a
    topic is cached until its node changes.

    The chain of a topic contains the number of entries and the size of each closed ledger, so only
    the metadata of the last ledger is needed.
    """

    def __init__(self, client: BookKeeper, options: Options) -> None:
        self.client = client
        self._options = options
        self._closed: dict[int, LedgerSnapshot] = {}
        self._chains: dict[str, tuple[list[LedgerInfo], asyncio.Event]] = {}
        """The chain in each node, and whether the node has changed since it was read."""
        self._lookups = asyncio.Semaphore(_MAX_CONCURRENT_LOOKUPS)

    async def chains(self) -> Chains:
        """Return the ledgers of each lane.

        Raises `OptionError` if a topic does not exist, and `LedgerGoneError` if a ledger does not
        exist.
        """
        if self._options.ledgers:
            listed = self._listed(await self.client.list_ledgers())
            return {Lane("", ledger_id): [LedgerInfo(ledger_id)] for ledger_id in listed}
        topics = self._options.topics or await self._matching_topics()
        by_topic = await asyncio.gather(*map(self._chains_of_topic, topics))
        return {lane: chain for chains in by_topic for lane, chain in chains.items()}

    async def lookup(self, info: LedgerInfo) -> LedgerSnapshot | None:
        """Return the ledger's current state, or None if it no longer exists and `failOnDataLoss` is
        false.

        A ledger that is closed according to the chain may have been deleted; the task that reads it
        notices the deletion. Raises `LedgerGoneError`, and `BKReadException` if too few bookies
        report an open ledger's LastAddConfirmed.
        """
        if info.closed_at_ms:
            return LedgerSnapshot(info.ledger_id, info.entry_count - 1, info.size_bytes)
        if closed := self._closed.get(info.ledger_id):
            return closed
        # A range may contain thousands of ledgers, and looking up an open one queries its bookies.
        async with self._lookups:
            return await self._look_up(info.ledger_id)

    async def _look_up(self, ledger_id: int) -> LedgerSnapshot | None:
        try:
            metadata = await read_metadata(self.client, ledger_id, self._options)
        except BKNoSuchLedgerExistsOnMetadataServerException:
            report_loss(ledger_id, self._options)
            return None
        reader = LedgerReader(ledger_id, metadata, self.client.context)
        if reader.is_closed:
            closed = LedgerSnapshot(ledger_id, metadata.last_entry_id, metadata.length)
            self._closed[ledger_id] = closed
            return closed
        if self._options.closed_only:
            return LedgerSnapshot(ledger_id, -1, 0)

        async def read_last_entry() -> tuple[int, int]:
            last = await reader.read_explicit_last_add_confirmed()
            return last, (await reader.read_entry(last)).length if last >= 0 else 0

        # Reading LastAddConfirmed raises BKReadException if too few bookies respond.
        errors = (*UNREACHABLE, BKReadException)
        last, length = await retry_read(read_last_entry, errors, self._options.retry_s)
        return LedgerSnapshot(ledger_id, last, length)

    async def _chains_of_topic(self, topic: str) -> Chains:
        try:
            count = await partition_count(self.client, topic)
        except NoTopicError:
            return {Lane(topic, partition_of(topic)): await self._unpartitioned_chain(topic)}
        names = [partition_name(topic, partition) for partition in range(count)]
        paths = [managed_ledger_path(name) for name in names]
        chains = await asyncio.gather(*map(self._chain, paths))
        return {Lane(topic, partition): chain or [] for partition, chain in enumerate(chains)}

    async def _unpartitioned_chain(self, topic: str) -> list[LedgerInfo]:
        chain = await self._chain(managed_ledger_path(topic))
        # A topic that matches the pattern may have been deleted since it was listed.
        if chain is None and self._options.topics:
            raise OptionError(
                f"topic {topic} does not exist in the cluster at {self._options.metadata}; topics"
                " in that namespace:"
                f" {_some(topic, await self._topics_beside(topic))}"
            )
        return chain or []

    async def _chain(self, path: str) -> list[LedgerInfo] | None:
        """Return the chain in this node, or None if there is no node.

        Call this right after another request to the metadata store: if the node had changed before
        that request was answered, its watch has fired by now.
        """
        if path in self._chains:
            chain, has_changed = self._chains[path]
            if not has_changed.is_set():
                return chain
        has_changed = asyncio.Event()
        chain, version = await read_chain(self.client, path, has_changed.set)
        if version < 0:
            return None
        self._chains[path] = chain, has_changed
        return chain

    async def _matching_topics(self) -> list[str]:
        """Return the topics that match the pattern. Raises `OptionError` if no topic matches."""
        pattern = self._options.topics_pattern
        folder, _, regex = pattern.rpartition("/")
        names = await self._topics_beside(pattern)
        matching = [name for name in names if re.fullmatch(regex, name)]
        if not matching:
            raise OptionError(
                f"option 'topicsPattern': no topic matches {pattern}; topics in that namespace:"
                f" {_some(pattern, names)}"
            )
        return [f"{folder}/{name}" for name in matching]

    async def _topics_beside(self, topic: str) -> list[str]:
        """Return the short names of all topics in the same namespace."""
        partitioned, stored = await asyncio.gather(
            self._children_beside(partitions_path(topic)),
            self._children_beside(managed_ledger_path(topic)),
        )
        # The partitions of a partitioned topic are not listed as separate topics.
        single = {name for name in stored if _PARTITION.sub("", name) not in partitioned}
        return sorted(partitioned | single)

    async def _children_beside(self, path: str) -> set[str]:
        try:
            names = await self.client.store.children(path.rpartition("/")[0])
        except NoNodeError:
            return set()
        return {decode_name(name) for name in names}

    def _listed(self, ids: list[int]) -> list[int]:
        ranges = self._options.ledgers
        # Sort the ids, so that each range can be found by bisection: a query may list thousands of
        # ranges.
        ids = sorted(ids)
        by_range = [
            ids[bisect_left(ids, first) : bisect_right(ids, last)] for first, last in ranges
        ]
        found = sorted({ledger_id for ids_in_range in by_range for ledger_id in ids_in_range})
        if found and not self._options.fail_on_data_loss:
            return found
        for (first, last), ids_in_range in zip(ranges, by_range, strict=True):
            if not ids_in_range:
                existing = (
                    f"existing ledgers: {ids[0]} to {ids[-1]}" if ids else "it has no ledgers"
                )
                problem = (
                    f"ledger {first} does not exist"
                    if first == last
                    else f"no ledger from {first} on exists"
                    if last == NO_END
                    else f"none of the ledgers {first}-{last} exist"
                )
                raise LedgerGoneError(
                    f"option 'ledgers': {problem} in the cluster at {self._options.metadata};"
                    f" {existing}. To read the ledgers that still exist, set option"
                    " 'failOnDataLoss' to 'false'"
                )
        return found


def _some(topic: str, names: list[str]) -> str:
    """Return some of the names, preferring those similar to the topic's name, in case the user
    mistyped it.
    """
    near = get_close_matches(topic.rpartition("/")[2], names) or names[:_MAX_SUGGESTIONS]
    shown = ", ".join(near or ["none"])
    return f"{shown} and others" if len(names) > len(near) else shown
