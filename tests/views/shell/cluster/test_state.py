"""Tests the shell's verbs for inspecting a cluster, on five bookies or on a ZooKeeper without
bookies.
"""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from labkit.cli.main import main
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.registration import BOOKIE_RPC, Endpoint, register_bookie
from labkit.system.model.entry import DigestType
from labkit.worlds.live.host.ports import free_port
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.until import until_true
from tests.views.shell.support import Ask, failure

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def documents(ask: Ask, zookeeper: str, *arguments: str) -> list[dict[str, Any]]:
    """Run a verb with --json; return its output, one document per line."""
    code, output, errors = await ask(zookeeper, "--json", *arguments)
    assert (code, errors) == (0, "")
    return [json.loads(line) for line in output.splitlines()]


async def test_simpletest_leaves_a_ledger_that_is_listed_printed_and_deleted(
    cluster: LocalCluster, ask: Ask
) -> None:
    zookeeper = cluster.zookeeper
    before = await documents(ask, zookeeper, "listledgers")
    code, output, errors = await ask(
        zookeeper, "simpletest", "-e", "3", "-w", "3", "-a", "2", "-n", "50"
    )
    assert (code, errors) == (0, "")
    assert "50 entries written to ledger" in output
    (new,) = [each for each in await documents(ask, zookeeper, "listledgers") if each not in before]
    ledger_id = str(new["ledger_id"])

    code, output, _ = await ask(zookeeper, "--json", "ledgermetadata", "-l", ledger_id)
    node = json.loads(output)
    assert node["metadata"]["state"] == "CLOSED"
    assert node["metadata"]["last_entry_id"] == 49
    assert node["version"] == 1
    ensemble = node["metadata"]["segments"][0]["ensemble"]
    assert new in await documents(ask, zookeeper, "listledgers", "-bookieid", ensemble[0])
    assert new not in await documents(ask, zookeeper, "listledgers", "-bookieid", "nobody")
    assert node in await documents(ask, zookeeper, "listledgers", "-meta")

    assert (await ask(zookeeper, "deleteledger", "-l", ledger_id, "-f"))[0] == 0
    assert new not in await documents(ask, zookeeper, "listledgers")
    errors = failure(await ask(zookeeper, "ledgermetadata", "-l", ledger_id))
    assert errors.startswith(f"labkit: ledger {ledger_id} does not exist in the metadata store")


async def test_simpletest_without_enough_bookies_fails_in_one_line(
    cluster: LocalCluster, ask: Ask
) -> None:
    code, output, errors = await ask(cluster.zookeeper, "simpletest", "-e", "9")
    assert (code, output) == (1, "")
    assert errors.count("\n") == 1


async def test_readledger_reads_what_is_confirmed_from_the_bookies(
    cluster: LocalCluster, client: BookKeeper, ask: Ask
) -> None:
    writer = await client.create_ledger(
        2, 2, 2, digest_type=DigestType.HMAC, password=b"known to the metadata"
    )
    for payload in (b"one", b"two", b"three"):
        await writer.add(payload)
    read = cluster.zookeeper, "readledger", str(writer.ledger_id)
    # The writer has confirmed the third entry but has not told any bookie yet.
    code, output, errors = await ask(*read)
    assert (code, errors) == (0, "")
    assert output.count("---------") == 2 * 2
    await writer.close()
    entries = await documents(ask, cluster.zookeeper, *read[1:], "0", "99", "-m")
    assert [bytes.fromhex(entry["data"]) for entry in entries] == [b"one", b"two", b"three"]
    second = await ask(*read, "1", "1", "-m")
    assert second[1] == (
        f"--------- Lid={writer.ledger_id}, Eid=1, PayloadSize=3 ---------\n"
        "LastConfirmed:  0\n"
        "  000000  74 77 6f                                         two\n"
    )
    code, output, errors = await ask(cluster.zookeeper, "readledger", "999")
    assert (code, output) == (1, "")
    assert errors.startswith("labkit: ledger 999 does not exist")


async def test_bookies_are_listed_by_state(cluster: LocalCluster, ask: Ask) -> None:
    zookeeper = cluster.zookeeper
    await cluster.kill("b4")

    async def states(*options: str) -> dict[str, str]:
        found = await documents(ask, zookeeper, "listbookies", *options)
        return {each["bookie_id"]: each["state"] for each in found}

    async def is_missed() -> bool:
        return "b4" not in await states()

    await until_true(is_missed)
    four = {f"b{number}": "READ_WRITE" for number in range(4)}
    assert await states() == await states("-rw") == four
    assert await states("-ro") == {}
    assert await states("-all") == {**four, "b4": "DOWN"}
    _, output, _ = await ask(zookeeper, "listbookies", "-a")
    assert "BookieID:b0, IP:127.0.0.1, Port:" in output
    assert "BookieID:b4, State:Down" in output


async def test_read_only_bookie_is_listed_as_such(
    zookeeper: EmbeddedZooKeeper, store: ZooKeeperStore, ask: Ask
) -> None:
    endpoint = Endpoint(BOOKIE_RPC, "192.0.2.1", 3181)
    await register_bookie(store, "b-1", [endpoint], read_only=True)
    assert await documents(ask, zookeeper.address, "listbookies", "-rw") == []
    assert await documents(ask, zookeeper.address, "listbookies", "-ro") == [
        {
            "kind": "BookieOfCluster",
            "bookie_id": "b-1",
            "state": "READ_ONLY",
            "host": "192.0.2.1",
            "port": 3181,
        }
    ]


async def test_ledger_is_not_deleted_without_a_yes(
    cluster: LocalCluster, client: BookKeeper, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = await client.create_ledger(1, 1, 1)
    await writer.close()
    command = ("deleteledger", "-l", str(writer.ledger_id))
    for answer in (io.StringIO(""), io.StringIO("n\n"), None):
        monkeypatch.setattr("sys.stdin", answer)
        code, output, errors = await ask(cluster.zookeeper, *command)
        assert (code, output) == (1, "")
        assert "cancelled; to proceed, answer y or add --force" in errors
        assert writer.ledger_id in await client.list_ledgers()
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert (await ask(cluster.zookeeper, *command))[0] == 0
    assert writer.ledger_id not in await client.list_ledgers()


@pytest.mark.java
async def test_cluster_is_made_once_and_made_again_on_demand(ask: Ask, tmp_path: Path) -> None:
    async with EmbeddedZooKeeper(tmp_path) as server:
        errors = failure(await ask(server.address, "whatisinstanceid"))
        assert "no BookKeeper cluster at zk+null://" in errors
        _, output, _ = await ask(server.address, "--json", "initnewcluster", "--layout", "flat")
        made = json.loads(output)
        assert made["layout"] == "flat"
        assert await ask(server.address, "whatisinstanceid") == (
            0,
            f"InstanceId: {made['instance_id']}\n",
            "",
        )
        errors = failure(await ask(server.address, "initnewcluster"))
        assert "a cluster already exists at" in errors
        assert (await ask(server.address, "metaformat", "-f"))[0] == 0
        _, output, _ = await ask(server.address, "--json", "whatisinstanceid")
        assert json.loads(output)["instance_id"] != made["instance_id"]


async def test_cluster_that_bookies_serve_is_not_formatted(cluster: LocalCluster, ask: Ask) -> None:
    errors = failure(await ask(cluster.zookeeper, "metaformat", "--force"))
    assert "stop all bookies first" in errors


async def test_cluster_that_is_not_named_or_not_there_is_one_line(
    ask: Ask, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["shell", "listbookies"]) == 1
    assert capsys.readouterr().err == (
        "labkit: listbookies needs a cluster: add --zookeeper HOST:PORT, or --zookeeper"
        " zk+null://HOST:PORT/ledgers\n"
    )
    assert main(["shell", "--data", ".", "listledgers", "-meta"]) == 1
    assert capsys.readouterr().err.endswith("add --zookeeper\n")
    assert main(["shell", "--data", ".", "--zookeeper", "127.0.0.1:1", "listledgers"]) == 1
    assert capsys.readouterr().err.endswith("or --data (or --journal, --ledgers and --index)\n")
    monkeypatch.setattr(
        "labkit.worlds.live.zookeeper.store.ZooKeeperStore.start.__defaults__", (0.5,)
    )
    address = f"127.0.0.1:{free_port()}"
    errors = failure(await ask(address, "listbookies"))
    assert errors == (
        f"labkit: ZooKeeper at {address} did not respond within 0.5 s; is it running?\n"
    )
