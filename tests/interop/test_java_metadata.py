"""Both implementations read each other's ledger metadata, ledger ids and layouts.

In BookKeeper: `meta/LedgerMetadataSerDe.java`, `meta/*LedgerManagerFactory.java`.
"""

import subprocess
import uuid
from base64 import b64decode, b64encode
from dataclasses import replace
from pathlib import Path

import pytest

from labkit.system.metadata.cluster import init_cluster, read_instance_id, read_layout
from labkit.system.metadata.ledger_layout import FLAT, LAYOUTS, LedgerLayout
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.model.entry import DigestType
from labkit.system.model.ledger import (
    LedgerMetadata,
    LedgerState,
    Segment,
    decode_ledger_metadata,
    encode_ledger_metadata,
)
from labkit.views.shell.cluster.records import describe_metadata
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.interop.apache import Apache, JavaClient
from tests.interop.bookies import BookieFolder
from tests.interop.payloads import PASSWORD
from tests.repeat import repeated

pytestmark = pytest.mark.interop

DRIVER_TIMEOUT_S = 60
CASES = [(version, state) for version in (1, 2, 3) for state in LedgerState]


def drive(apache: Apache, *requests: str) -> list[list[str]]:
    """Send requests to `MetadataDriver`, check that all succeed, and return the responses."""
    run = subprocess.run(
        apache.command("MetadataDriver"),
        input="".join(f"{request}\n" for request in requests),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=DRIVER_TIMEOUT_S,
        check=True,
    )
    answers = [line.split(" ", 2) for line in run.stdout.splitlines()]
    assert [answer[0] for answer in answers] == ["ok"] * len(requests), answers
    return answers


def ledger_of(version: int, state: LedgerState) -> LedgerMetadata:
    """Return the metadata that `MetadataDriver` creates."""
    first = ("192.0.2.1:3181", "192.0.2.2:3181", "b-3")
    segments = (Segment(0, first), Segment(2, ("192.0.2.1:3181", "b-4", "b-3")))
    ledger = LedgerMetadata(3, 2, 2, segments, format_version=version, has_password=version > 1)
    if version > 1:
        ledger = replace(
            ledger,
            digest_type=DigestType.CRC32C,
            password=b'p\x00"\x07\n\xff',
            custom_metadata=(("owner", b"\x00\x01x"),),
            ctime_ms=1700000000000,
            c_token=42 if version > 2 else 0,
        )
    if state is LedgerState.CLOSED:
        return replace(ledger, state=state, last_entry_id=2, length=15)
    return replace(ledger, state=state)


def test_labkit_reads_the_metadata_that_java_writes(apache: Apache) -> None:
    answers = drive(apache, *(f"make {version} {state.name}" for version, state in CASES))
    found = [decode_ledger_metadata(b64decode(answer[1])) for answer in answers]
    assert found == [ledger_of(version, state) for version, state in CASES]


def test_java_reads_the_metadata_that_labkit_writes(apache: Apache) -> None:
    ledgers = [ledger_of(version, state) for version, state in CASES]
    written = [encode_ledger_metadata(ledger) for ledger in ledgers]
    answers = drive(apache, *(f"read {b64encode(data).decode()}" for data in written))
    # Java's encoding of the same metadata decodes to the same value, and Java describes it in the
    # same words as labkit's shell.
    again = [decode_ledger_metadata(b64decode(answer[1])) for answer in answers]
    assert again == ledgers
    assert [answer[2] for answer in answers] == [describe_metadata(ledger) for ledger in ledgers]


@pytest.mark.parametrize("layout", repeated(LAYOUTS.values()))
async def test_both_find_each_others_ledgers_in_every_layout(
    apache: Apache, tmp_path: Path, layout: LedgerLayout
) -> None:
    async with EmbeddedZooKeeper(tmp_path / "zookeeper") as zookeeper:
        apache = apache.known_to(zookeeper)
        store = ZooKeeperStore(zookeeper.location)
        await store.start()
        bookie = BookieFolder("b0", tmp_path, zookeeper.address)
        await init_cluster(store, str(uuid.uuid4()), layout)
        process = await bookie.start_labkit()
        java = await JavaClient.start(apache, zookeeper.address, "v2", tmp_path / "java.log")
        try:
            manager = LedgerManager(store)
            ids = [await java.create(1, 1, 1, "CRC32C"), await manager.new_ledger_id()]
            if layout.long_ids:
                # From now on, both assign long ids.
                await store.create("/ledgers/idgen-long", b"")
                long_java = await JavaClient.start(
                    apache, zookeeper.address, "v2", tmp_path / "java.log"
                )
                ids.append(await long_java.create(1, 1, 1, "CRC32C"))
                await long_java.kill()
                ids.append(await LedgerManager(store).new_ledger_id())
                assert ids[2:] == [1 << 32, (1 << 32) + 1]
            # In a flat layout, ids count every node that was ever created below the root.
            assert ids[:2] == [0, 1] or (layout is FLAT and ids[0] < ids[1])
            ledger = LedgerMetadata(1, 1, 1, (Segment(0, ("b0",)),), password=PASSWORD)
            for ledger_id in ids[1::2]:
                await manager.create(ledger_id, ledger.closed(-1, 0))
            assert await manager.ids() == ids
            listed = await bookie.shell(apache, "listledgers")
            assert [f"ledgerID: {ledger_id}" in listed for ledger_id in ids] == [True] * len(ids)
            for ledger_id in ids[1::2]:
                assert await java.open(ledger_id) == (-1, 0)
                await java.delete(ledger_id)
            for ledger_id in ids[::2]:
                assert (await manager.read(ledger_id))[0].segments[0].ensemble == ("b0",)
                await manager.delete(ledger_id)
            assert await manager.ids() == []
        finally:
            await java.kill()
            await process.stop()
            await store.stop()


async def test_labkit_adopts_a_cluster_that_java_formatted(apache: Apache, tmp_path: Path) -> None:
    async with EmbeddedZooKeeper(tmp_path / "zookeeper") as zookeeper:
        apache = apache.known_to(zookeeper)
        bookie = BookieFolder("b0", tmp_path, zookeeper.address)
        await bookie.shell(apache, "metaformat", "-n", "-f")
        store = ZooKeeperStore(zookeeper.location)
        await store.start()
        try:
            layout, instance_id = await read_layout(store), await read_instance_id(store)
            assert layout is not None
            assert await init_cluster(store, str(uuid.uuid4()), layout) == instance_id
        finally:
            await store.stop()
