"""A cluster's processes can be started, killed, paused and restarted, and leave nothing behind."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.placement.placement import in_name_order
from labkit.system.model.errors import BKException, BKIncorrectParameterException
from labkit.system.trace.events import Event, lineage
from labkit.worlds.live.host.exit_codes import EXIT_OK
from labkit.worlds.live.host.ports import LOOPBACK, free_port
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.processes.node_process import NodeNotStartedError, NodeStateError
from labkit.worlds.live.trace_stream import TraceStream
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from tests.until import DEADLINE_S, until, until_true

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.java]

OWNER = """
import asyncio, pathlib, sys
from labkit.worlds.live.processes.cluster import LocalCluster

async def own():
    cluster = LocalCluster(2, folder=pathlib.Path(sys.argv[1]))
    await cluster.start()
    print("up", flush=True)
    await asyncio.sleep(600)

asyncio.run(own())
"""

FORGETFUL_OWNER = """
import asyncio, atexit, os
from labkit.worlds.live.processes.cluster import LocalCluster

def tell():
    ended = 0
    for pid in pids:
        try:
            ended += os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:
            ended += 1
    print(f"{ended} of {len(pids)} have ended")

atexit.register(tell)
loop = asyncio.new_event_loop()
cluster = loop.run_until_complete(LocalCluster(3, traced=False).start())
pids = [cluster.ports_of(name)["pid"] for name in cluster.bookie_names]
pids.append(cluster.embedded_zookeeper.pid)
"""


def events_of(cluster: LocalCluster, kind: str) -> list[Event]:
    return [event for event in cluster.trace.events if event.kind == kind]


def processes_in(folder: Path) -> list[int]:
    """Return the ids of the processes that mention the directory or run in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            works_in = os.readlink(process / "cwd")
        except OSError:
            continue  # The process has exited in the meantime.
        if str(folder).encode() in command or works_in.startswith(str(folder)):
            found.append(int(process.name))
    return found


async def stored(client: BookKeeper, payload: bytes = b"entry") -> int:
    """Write a closed ledger with one entry to the first three bookies."""
    writer = await client.create_ledger(3, 3, 3)
    await writer.add(payload)
    await writer.close()
    return writer.ledger_id


async def read_back(client: BookKeeper, ledger_id: int) -> bytes:
    reader = await client.open_ledger_no_recovery(ledger_id)
    return (await reader.read_entry(0)).payload


async def test_all_bookies_take_writes_when_the_cluster_has_started(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    names = [f"b{number}" for number in range(5)]
    assert cluster.bookie_names == names
    assert await client.writable_bookies() == names
    assert all(map(cluster.is_up, names))
    for name in names:
        assert (cluster.folder_of(name) / "journal" / "current" / "VERSION").is_file()


@pytest.mark.core
async def test_entries_survive_the_kill_of_every_bookie(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    ledger_id = await stored(client)
    await asyncio.gather(*(cluster.kill(name) for name in cluster.bookie_names))
    await asyncio.gather(*(cluster.restart(name) for name in cluster.bookie_names))
    fresh = await cluster.connect("fresh")
    assert await read_back(fresh, ledger_id) == b"entry"


async def test_restart_of_a_bookie_that_is_up_kills_it_first(cluster: LocalCluster) -> None:
    kills = len(events_of(cluster, "node.killed"))
    await cluster.restart("b0")
    await cluster.settled()
    assert len(events_of(cluster, "node.killed")) == kills + 1


async def test_paused_bookie_is_up_and_answers_after_it_is_resumed(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(3, 3, 3)
    await cluster.pause("b1")
    assert cluster.is_up("b1")
    added = writer.add(b"waits")
    await until(lambda: writer.pending[0].acked.bit_count() == 2)
    assert not added.done()
    await cluster.resume("b1")
    assert await added == 0
    await writer.close()


async def test_bookie_that_lost_its_session_registers_again(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    async def takes_writes() -> bool:
        return "b2" in await client.writable_bookies()

    async def takes_none() -> bool:
        return not await takes_writes()

    await cluster.pause("b2")
    await until_true(takes_none)
    await cluster.resume("b2")
    await until_true(takes_writes)
    assert await read_back(client, await stored(client)) == b"entry"


async def test_paused_bookie_can_be_killed_and_shut_down(cluster: LocalCluster) -> None:
    await cluster.pause("b3")
    await cluster.restart("b3")
    with pytest.raises(NodeStateError, match="b3 is not paused"):
        await cluster.resume("b3")
    await cluster.pause("b3")
    async with asyncio.timeout(DEADLINE_S):
        await cluster.shut_down("b3")
    assert cluster.exit_code_of("b3") == EXIT_OK


async def test_what_does_not_fit_the_state_of_a_bookie_is_refused(cluster: LocalCluster) -> None:
    await cluster.kill("b4")
    for verb, call in (
        ("killed", cluster.kill),
        ("paused", cluster.pause),
        ("shut down", cluster.shut_down),
    ):
        message = f"b4 is down and cannot be {verb}; restart it first"
        with pytest.raises(NodeStateError, match=message):
            await call("b4")
    with pytest.raises(NodeStateError, match="b4 is not paused"):
        await cluster.resume("b4")


async def test_unknown_bookie_is_named_with_those_that_are_there(cluster: LocalCluster) -> None:
    for call in (cluster.kill, cluster.pause, cluster.resume, cluster.restart):
        with pytest.raises(BKIncorrectParameterException, match=r"node 'b5'; .*: b0,"):
            await call("b5")
    for ask in (cluster.is_up, cluster.folder_of):
        with pytest.raises(BKIncorrectParameterException, match="unknown node ''"):
            ask("")


async def test_start_of_a_running_cluster_is_refused_and_leaves_it_running(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    with pytest.raises(NodeStateError, match=r"is already running: await its stop\(\) first"):
        await cluster.start()
    assert all(map(cluster.is_up, cluster.bookie_names))
    assert await read_back(client, await stored(client)) == b"entry"


async def test_cluster_that_is_started_again_reports_each_event_once() -> None:
    cluster = LocalCluster(1)
    for starts in (1, 2):
        async with cluster:
            await cluster.settled()
            assert len(events_of(cluster, "node.started")) == starts


async def test_cluster_that_was_not_started_says_so_at_once() -> None:
    cluster = LocalCluster(1, brokers=1)
    for ask in (
        cluster.connect,
        cluster.settled,
        lambda: cluster.restart("b0"),
    ):
        with pytest.raises(NodeStateError, match=r"not running: await its start\(\) first"):
            await ask()
    with pytest.raises(NodeStateError, match="broker-1 has no ports yet: await"):
        _ = cluster.service_url


async def test_lineage_of_an_acked_entry_reaches_back_to_its_push(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    ledger_id = await stored(client)
    await cluster.settled()
    confirmed = [e for e in events_of(cluster, "lac.advanced") if e.ledger == ledger_id]
    assert [event.entry for event in confirmed] == [0]
    path = lineage(dict(enumerate(cluster.trace.events)), confirmed[0].seq)
    assert [event.kind for event in path] == [
        "add.pushed",
        "add.sent",
        "memtable.put",
        "journal.appended",
        "journal.synced",
        "add.acked",
        "lac.advanced",
    ]
    assert {event.ledger for event in path} == {ledger_id}
    bookie = path[2].node
    assert [event.node for event in path] == [*["client"] * 2, *[bookie] * 3, *["client"] * 2]
    assert path[1].peer == path[5].peer == bookie
    assert (path[3].file, path[3].offset) == (path[4].file, path[4].offset)


async def test_trace_has_the_events_of_every_node(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    await stored(client)
    await cluster.settled()
    for kind in ("memtable.put", "journal.synced"):
        nodes = {event.node for event in events_of(cluster, kind)}
        assert {"b0", "b1", "b2"} <= nodes
    assert {event.node for event in events_of(cluster, "bookie.registered")} == set(
        cluster.bookie_names
    )


async def test_a_trace_that_starts_later_has_only_the_events_since_then(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    address = f"{zookeeper.address}/traced-later"
    async with LocalCluster(1, zookeeper=address, traced=False) as cluster:
        writer = await (await cluster.connect("first")).create_ledger(1, 1, 1)
        await writer.add(b"untraced")
        await cluster.start_tracing()
        later = await (await cluster.connect("second")).create_ledger(1, 1, 1)
        await later.add(b"traced")
        await cluster.kill("b0")
        await cluster.settled()
        entries = events_of(cluster, "journal.synced")
        assert {event.ledger for event in entries} == {later.ledger_id}
        assert {event.node for event in events_of(cluster, "add.acked")} == {"second"}
        assert [event.node for event in events_of(cluster, "node.killed")] == ["b0"]


async def test_trace_has_the_last_sync_of_a_bookie_that_was_killed(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(1, 1, 1)
    adds = [writer.add(b"entry") for _ in range(2000)]
    await adds[1000]
    await cluster.kill("b0")
    await asyncio.gather(*adds, return_exceptions=True)
    await cluster.settled()
    acked = {e.entry for e in events_of(cluster, "add.acked") if e.ledger == writer.ledger_id}
    synced = {e.entry for e in events_of(cluster, "journal.synced") if e.ledger == writer.ledger_id}
    assert len(acked) > 1000
    assert acked <= synced


async def test_temporary_folder_and_processes_end_with_the_cluster_and_its_clients_fail() -> None:
    async with LocalCluster(1, traced=False) as cluster:
        folder = cluster.folder
        assert len(processes_in(folder)) >= 2
        writer = await (await cluster.connect()).create_ledger(1, 1, 1)
    assert not folder.exists()
    await until(lambda: not processes_in(folder))
    with pytest.raises(BKException):
        await writer.add(b"late")


async def test_folder_that_was_given_keeps_entries_for_the_next_cluster(tmp_path: Path) -> None:
    async with LocalCluster(3, folder=tmp_path, traced=False) as cluster:
        ledger_id = await stored(await cluster.connect(placement=in_name_order), b"kept")
    async with LocalCluster(3, folder=tmp_path, traced=False) as cluster:
        client = await cluster.connect()
        assert await client.list_ledgers() == [ledger_id]
        assert await read_back(client, ledger_id) == b"kept"


async def test_existing_zookeeper_is_used_and_left_running(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    async with LocalCluster(1, zookeeper=zookeeper.address, folder=tmp_path) as cluster:
        assert cluster.zookeeper == zookeeper.address
        assert await (await cluster.connect()).writable_bookies() == ["b0"]
    assert not (tmp_path / "zookeeper").exists()
    os.kill(zookeeper.pid, 0)


async def test_folder_of_another_cluster_is_refused_by_its_cookie(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    async with LocalCluster(1, folder=tmp_path, traced=False):
        pass
    with pytest.raises(NodeNotStartedError, match="does not match this bookie"):
        await LocalCluster(1, zookeeper=zookeeper.address, folder=tmp_path).start()


@pytest.mark.parametrize("name", ["", "zookeeper", "b1"])
async def test_folder_that_cannot_be_made_is_named_and_nothing_is_left_running(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "data"
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"a file is in the way")
    with pytest.raises(OSError, match=str(folder)):
        await LocalCluster(3, folder=folder, traced=False).start()
    await until(lambda: not processes_in(folder))


async def test_everything_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    owner = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert owner.stdout is not None
    try:
        assert await owner.stdout.readline() == b"up\n"
        assert len(processes_in(tmp_path)) >= 4
    finally:
        owner.kill()
        await owner.wait()
    await until(lambda: not processes_in(tmp_path))


async def test_everything_has_ended_before_the_folder_of_a_cluster_never_stopped_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FORGETFUL_OWNER, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await owner.communicate()
    assert said == b"4 of 4 have ended\n"
    # This directory contains the secrets.
    assert os.listdir(tmp_path) == [f"labkit-{os.geteuid()}"]


async def test_a_bookie_that_ends_by_itself_is_reported_in_the_trace(cluster: LocalCluster) -> None:
    before = len(events_of(cluster, "node.killed"))
    os.kill(cluster.ports_of("b2")["pid"], signal.SIGKILL)
    await until(lambda: len(events_of(cluster, "node.killed")) > before)
    assert events_of(cluster, "node.killed")[-1].node == "b2"
    assert not cluster.is_up("b2")
    await cluster.restart("b2")
    assert cluster.is_up("b2")


async def test_a_listener_that_fails_is_not_waited_for_in_vain() -> None:
    def fail(_: object) -> None:
        raise ValueError("the listener's own mistake")

    async with LocalCluster(bookies=1) as cluster:
        stop_listening = cluster.trace.listen(fail)
        await cluster.restart("b0")
        with pytest.raises(ValueError, match="own mistake"):
            await cluster.settled()
        stop_listening()


class UndrainableTrace(TraceStream):
    async def drain(self) -> None:
        raise ValueError("the trace is damaged")


class ClusterWithDamagedTraces(LocalCluster):
    def trace_stream_of(self, name: str, port: int) -> TraceStream:
        return UndrainableTrace(LOOPBACK, port, self.trace.add)


async def test_a_stop_that_fails_still_ends_every_process() -> None:
    cluster = await ClusterWithDamagedTraces(2).start()
    with pytest.raises(ValueError, match="the trace is damaged"):
        await cluster.stop()
    assert not any(map(cluster.is_up, cluster.bookie_names))
    assert not cluster.embedded_zookeeper.is_up
    assert not cluster.folder.exists()


class ClusterThatDiesAtOnce(LocalCluster):
    def command_of(self, name: str, command: list[str]) -> list[str]:
        ports = json.dumps({"port": 1, "trace_port": free_port()})
        return [sys.executable, "-c", f"print({ports!r})"]


async def test_a_bookie_that_dies_right_after_its_announcement_has_not_started(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    cluster = ClusterThatDiesAtOnce(1, zookeeper=f"{zookeeper.address}/dies-at-once")
    with pytest.raises(NodeNotStartedError, match="the trace of b0 cannot be read"):
        await cluster.start()
    assert not cluster.is_up("b0")


async def test_a_restart_does_not_outlive_the_stop_of_its_cluster() -> None:
    cluster = await LocalCluster(1, traced=False).start()
    restarting = asyncio.create_task(cluster.restart("b0"))
    await asyncio.sleep(0)
    await cluster.stop()
    with pytest.raises(NodeStateError, match="this cluster is not running"):
        await restarting
    assert not cluster.folder.exists()


async def test_tracing_starts_while_a_node_is_down_but_not_while_one_is_paused(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    address = f"{zookeeper.address}/traced-while-down"
    async with LocalCluster(2, zookeeper=address, traced=False) as cluster:
        await cluster.kill("b1")
        await cluster.pause("b0")
        with pytest.raises(NodeStateError, match="b0 is paused and cannot send its events"):
            async with asyncio.timeout(DEADLINE_S):
                await cluster.start_tracing()
        await cluster.resume("b0")
        await cluster.start_tracing()
        await cluster.restart("b1")
        await cluster.settled()
        registered = {event.node for event in events_of(cluster, "bookie.registered")}
        assert "b1" in registered
        with pytest.raises(NodeStateError, match="this cluster is already traced"):
            await cluster.start_tracing()


async def test_brokers_use_the_ports_of_their_configuration(zookeeper: EmbeddedZooKeeper) -> None:
    address, port = f"zk+null://{zookeeper.address}/own-ports/ledgers", free_port()
    keys = {"webServicePort": port}
    async with LocalCluster(1, brokers=1, zookeeper=address, broker_conf=keys) as cluster:
        assert cluster.ports_of("broker-1")["web_port"] == port


async def test_a_relative_folder_stays_the_same_if_the_working_directory_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster = LocalCluster(1, folder=Path("data"))
    assert cluster.folder_of("b0") == tmp_path / "data" / "b0"
