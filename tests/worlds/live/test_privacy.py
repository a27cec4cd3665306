"""Another user of the machine has no access to a cluster.

Such a user can neither read the cluster's files nor query its ZooKeeper nor find its secret.
"""

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import pytest_asyncio

from labkit.system.metadata.store import MetadataUnavailableError
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.processes.node_process import NodeNotStartedError
from labkit.worlds.live.zookeeper.secret import SECRET_VARIABLE, known_secret
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.worlds.live.other_user import as_another_user

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.java, pytest.mark.slow]

READ = """
import json, os, sys
found = []
for path in sys.argv[1:]:
    try:
        os.listdir(path) if os.path.isdir(path) else open(path, "rb").read()
        found.append(path)
    except OSError as error:
        assert isinstance(error, (PermissionError, FileNotFoundError)), error
print(json.dumps(found))
"""

ASK = """
import json, sys
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl
address, user = sys.argv[1:]
answers = {}
def ask(name, question):
    client = KazooClient(address, timeout=4)
    client.start()
    try:
        answers[name] = "granted" if question(client) is not None else "nothing"
    except KazooException as error:
        answers[name] = type(error).__name__
    client.stop()
    client.close()
ask("children", lambda client: client.get_children("/"))
ask("get", lambda client: client.get("/ledgers/INSTANCEID"))
ask("exists", lambda client: client.exists("/ledgers"))
ask("getAcl", lambda client: client.get_acls("/"))
ask("set", lambda client: client.set("/ledgers/INSTANCEID", b"mine"))
ask("create", lambda client: client.create("/mine", b""))
ask("delete", lambda client: client.delete("/ledgers/LAYOUT"))
ask("setAcl", lambda client: client.set_acls("/", OPEN_ACL_UNSAFE))
ask("addauth", lambda client: client.add_auth("digest", "labkit:x") and client.get_children("/"))
print(json.dumps(answers))
"""


@contextmanager
def a_folder_that_everybody_can_enter() -> Iterator[Path]:
    """Create a world-accessible directory, because pytest's own would hide files left open."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster() -> AsyncIterator[LocalCluster]:
    """Start a bookie and a broker with a umask of 0."""
    before = os.umask(0)
    try:
        with a_folder_that_everybody_can_enter() as folder:
            async with LocalCluster(1, folder=folder / "data", brokers=1) as cluster:
                writer = await (await cluster.connect()).create_ledger(1, 1, 1)
                await writer.add(b"a secret of some student")
                yield cluster
    finally:
        os.umask(before)


def command_lines() -> list[str]:
    """Return the command lines of all processes on this machine."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):
            lines.append(file.read_bytes().decode(errors="replace"))
    return lines


def everything_below(folder: Path) -> list[Path]:
    return [folder, *folder.rglob("*")]


async def test_all_files_are_for_their_owner_whatever_the_umask(cluster: LocalCluster) -> None:
    found = everything_below(cluster.folder)
    assert {"bk_server.conf", "broker.log", "zoo.cfg", "jaas.conf", "VERSION", "lock"} <= {
        path.name for path in found
    }
    assert [path for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


async def test_another_user_reads_no_file_and_no_environment(cluster: LocalCluster) -> None:
    pids = [cluster.ports_of(name)["pid"] for name in ("b0", "broker-1")]
    secrets = Path(tempfile.gettempdir()) / f"labkit-{os.geteuid()}"
    paths = [*everything_below(cluster.folder), *everything_below(secrets)]
    paths += [Path(f"/proc/{pid}/environ") for pid in pids]
    assert await asyncio.to_thread(as_another_user, READ, *paths) == []


async def test_another_user_gets_nothing_from_zookeeper(cluster: LocalCluster) -> None:
    answers = await asyncio.to_thread(as_another_user, ASK, cluster.zookeeper, "")
    assert len(answers) == 9
    refused = {"SessionClosedRequireSaslError", "ConnectionLoss"}
    assert {name: kind for name, kind in answers.items() if kind not in refused} == {}
    store = (await cluster.connect()).store
    assert "mine" not in await store.children("/")
    assert await store.exists("/ledgers/LAYOUT")


async def test_the_secret_stands_on_no_command_line(cluster: LocalCluster) -> None:
    lines = command_lines()
    assert any("zoo.cfg" in line for line in lines)
    secret = known_secret(cluster.zookeeper)
    assert secret
    assert [line for line in lines if secret in line] == []


async def test_a_client_that_does_not_know_the_secret_is_refused_in_a_line(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = known_secret(cluster.zookeeper)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(MetadataUnavailableError, match=r"refuses this process.*run it as the us"):
        await ZooKeeperStore(cluster.metadata).start()
    monkeypatch.setenv(SECRET_VARIABLE, "wrong")
    with pytest.raises(MetadataUnavailableError, match=f"or set {SECRET_VARIABLE}"):
        await ZooKeeperStore(cluster.metadata).start()
    monkeypatch.setenv(SECRET_VARIABLE, secret)
    async with ZooKeeperStore(cluster.metadata) as store:
        assert await store.exists("/")


async def test_folders_that_are_there_are_closed_to_others() -> None:
    with a_folder_that_everybody_can_enter() as folder:
        async with LocalCluster(1, folder=folder, traced=False):
            pass
        for path in folder.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        async with LocalCluster(1, folder=folder, traced=False) as cluster:
            paths = [path for path in cluster.folder.rglob("*") if path.is_file()]
            assert await asyncio.to_thread(as_another_user, READ, *paths) == []


async def test_a_directory_that_every_user_can_change_is_refused_with_the_remedy() -> None:
    with a_folder_that_everybody_can_enter() as folder:
        ledgers = folder / "b0" / "ledgers"
        ledgers.mkdir(parents=True)
        ledgers.chmod(0o777)
        with pytest.raises(NodeNotStartedError, match=f"run `chmod o-w {ledgers}`"):
            await LocalCluster(1, folder=folder, traced=False).start()
