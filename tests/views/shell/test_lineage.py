"""Tests that a message is located in the files of simulated and real bookies."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from labkit.course.runs.topics.topic_world import in_a_cluster, lineage_of
from labkit.system.model.errors import (
    BKIncorrectParameterException,
    BKNoSuchLedgerExistsOnMetadataServerException,
)
from labkit.system.model.message_id import MessageId
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.producing.producer import Batching
from labkit.system.topic.topic import Topic
from labkit.views.shell.folders import ShellError
from labkit.views.xray.message_location import ChainLink, Lineage
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.views.shell.support import Ask

Action = Callable[[Any], Coroutine[Any, Any, Any]]
FLUSHED_S = 1.0


def sent(
    then: Callable[[Any, list[MessageId]], Coroutine[Any, Any, Any]], partitions: int = 2
) -> Any:
    """Publish 60 messages in batches of 5, in ledgers of 3 entries; return what `then` returns."""

    async def action(node: Any) -> Any:
        config = ManagedLedgerConfig(4, 3, 2, max_entries_per_ledger=3)
        topic = await Topic.create(node.client, "orders", partitions=partitions, config=config)
        producer = topic.producer("shop", batching=Batching(max_messages=5))
        ids = await asyncio.gather(*(producer.send(b"order %d" % n) for n in range(60)))
        return await then(node, ids)

    return in_a_cluster(action, bookies=5)


def find(text: str) -> Any:
    async def then(node: Any, ids: list[MessageId]) -> Lineage:
        await asyncio.sleep(FLUSHED_S)
        return await lineage_of(node, MessageId.parse(text))

    return sent(then)


def own_bytes(lineage: Lineage, copy: int) -> bytes:
    data = lineage.copies[copy].piece.data
    return data[lineage.offset : lineage.offset + lineage.size]


def test_every_id_leads_to_its_own_message_on_every_bookie_of_the_write_set() -> None:
    async def all_of_them(node: Any, ids: list[MessageId]) -> list[Lineage]:
        await asyncio.sleep(FLUSHED_S)
        return [await lineage_of(node, message_id) for message_id in ids]

    for number, lineage in enumerate(sent(all_of_them)):
        entry_id, ensemble = lineage.message_id.entry_id, lineage.metadata.segments[0].ensemble
        expected = [ensemble[(entry_id + i) % 4] for i in range(3)]
        assert [copy.bookie for copy in lineage.copies] == expected
        for copy in range(3):
            assert own_bytes(lineage, copy).endswith(b"order %d" % number)
        assert lineage.topic.endswith(f"orders-partition-{lineage.message_id.partition}")
        assert (lineage.partition_count, lineage.batch_size) == (2, 5)


def test_what_is_not_flushed_is_found_in_the_journal() -> None:
    async def at_once_and_later(node: Any, ids: list[MessageId]) -> list[Lineage]:
        early = await lineage_of(node, ids[-1])
        await asyncio.sleep(FLUSHED_S)
        return [early, await lineage_of(node, ids[-1])]

    early, late = sent(at_once_and_later)
    assert {copy.piece.file.rpartition(".")[2] for copy in early.copies} == {"txn"}
    assert {copy.piece.file.rpartition(".")[2] for copy in late.copies} == {"log"}
    assert own_bytes(early, 0) == own_bytes(late, 0)


def test_the_chain_says_which_ledger_is_open() -> None:
    lineage = find("0:0:0:0")
    *closed, last = lineage.chain
    assert closed == [ChainLink(0, 3), ChainLink(2, 3)]
    assert last.entry_count is None


def test_every_byte_of_the_entry_has_a_name() -> None:
    for copy in find("2:1:0:4").copies:
        at = copy.piece.offset
        for span in copy.piece.spans:
            assert span.offset == at
            at += span.size
        assert at == copy.piece.offset + len(copy.piece.data)


def test_the_whole_entry_has_an_id_too() -> None:
    lineage = find("2:1:0:-1")
    assert own_bytes(lineage, 0).count(b"order") == 5


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        ("0:0:0:5", BKIncorrectParameterException, "its batch contains messages 0 to 4"),
        ("0:3:0:0", ShellError, "entry 3 of ledger 0 is not in the files of b.*Confirmed is 2"),
        ("0:0:1:0", ShellError, "the partition in the id must be 0, got 1"),
        ("0:0:-1:0", ShellError, "the partition in the id must be 0, got -1"),
        ("99:0:0:0", BKNoSuchLedgerExistsOnMetadataServerException, "99"),
    ],
)
def test_an_id_of_no_message_is_refused_with_the_reason(
    text: str, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        find(text)


def test_a_ledger_without_a_topic_is_refused() -> None:
    async def plain(node: Any) -> Lineage:
        writer = await node.client.create_ledger(3, 2, 2)
        await writer.add(b"no message")
        await writer.close()
        return await lineage_of(node, MessageId(writer.ledger_id, 0))

    with pytest.raises(ShellError, match="does not belong to a topic"):
        in_a_cluster(plain)


@pytest.mark.asyncio(loop_scope="session")
async def test_the_verb_tells_topic_chain_entry_and_files_of_real_bookies(
    cluster: LocalCluster, ask: Ask
) -> None:
    topic = await Topic.create(await cluster.connect(), "told-by-the-verb", partitions=0)
    producer = topic.producer("shop", batching=Batching(max_messages=3))
    ids = await asyncio.gather(*(producer.send(b"order %d" % n) for n in range(6)))
    folders = [f"{name}={cluster.folder_of(name)}" for name in cluster.bookie_names]
    verb = ("messageid", "-m", str(ids[4]), *folders)
    code, output, errors = await ask(cluster.zookeeper, *verb)
    assert (code, errors) == (0, "")
    for line in (
        "topic: persistent://public/default/told-by-the-verb",
        f"ledgers (with number of entries): {ids[4].ledger_id} (open)",
        "entry 1: message 1 of 0 to 2, ",
        ".txn, offset ",
        "'order 4'",
    ):
        assert line in output
    code, output, errors = await ask(cluster.zookeeper, "--json", *verb)
    document = json.loads(output)
    assert (code, document["kind"], len(document["copies"])) == (0, "Lineage", 3)
    await topic.close()


@pytest.mark.asyncio(loop_scope="session")
async def test_of_a_bookie_whose_folder_was_not_named_the_verb_says_only_that(
    cluster: LocalCluster, ask: Ask
) -> None:
    everywhere = ManagedLedgerConfig(3, 3, 2)
    client = await cluster.connect()
    topic = await Topic.create(client, "in-one-folder", partitions=0, config=everywhere)
    message_id = await topic.producer("shop").send(b"order")
    await topic.close()
    metadata = await client.ledger_metadata(message_id.ledger_id)
    here, other, _ = metadata.segments[0].ensemble
    verb = (cluster.zookeeper, "messageid", str(message_id))
    code, output, _ = await ask(*verb, f"{here}={cluster.folder_of(here)}")
    assert (code, f"{other}: its folder was not given" in output) == (0, True)
    code, _, errors = await ask(*verb, f"nobody={cluster.folder_of(here)}")
    assert (code, "is not in the given folders; its write set is " in errors) == (1, True)
