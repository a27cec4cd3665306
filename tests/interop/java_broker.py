"""Run Apache Pulsar's broker on this machine, in a labkit cluster."""

import asyncio
import json
import os
import socket
from asyncio.subprocess import STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from labkit.system.metadata.store import MetadataStore, NodeExistsError
from labkit.worlds.live.host.ports import LOOPBACK, free_port
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.interop.apache import fetch_jars
from tests.until import until

POM = Path(__file__).parent / "pulsar_broker_pom.xml"
CLUSTER = "standalone"
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
JVM_OPTIONS = (
    "-Xmx512m",
    "-XX:MaxDirectMemorySize=256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dpulsar.allocator.exit_on_oom=false",
    # In FIPS mode, ZooKeeper's client would reject the DIGEST-MD5 mechanism that it needs to log
    # in.
    "-Dzookeeper.fips-mode=false",
    *(
        f"--add-opens={module}=ALL-UNNAMED"
        for module in (
            "java.base/java.lang",
            "java.base/java.net",
            "java.base/java.nio",
            "java.base/java.util",
            "java.base/java.util.zip",
            "java.base/jdk.internal.misc",
            "java.base/jdk.internal.platform",
            "java.base/sun.net",
            "java.management/sun.management",
        )
    ),
)


class JavaBroker(NamedTuple):
    """The addresses of a running broker."""

    service_url: str
    web_url: str


def broker_jars() -> Path:
    """Return the directory with the broker's jars. Raises `NotToBeHad`."""
    return fetch_jars("pulsar-broker", POM)


@asynccontextmanager
async def java_broker(cluster: LocalCluster, jars: Path) -> AsyncIterator[JavaBroker]:
    """Run Pulsar's broker with the cluster's bookies and metadata until the block ends."""
    client = await cluster.connect()
    await _know_the_cluster(client.store)
    port, web_port = free_port(), free_port()
    conf = cluster.folder / "java-broker.conf"
    conf.write_text(_configuration(cluster, port, web_port))
    login = cluster.embedded_zookeeper.login_file
    command = [
        "java",
        *JVM_OPTIONS,
        f"-Djava.security.auth.login.config={login}",
        "-cp",
        f"{jars}{os.sep}*",
        "org.apache.pulsar.PulsarBrokerStarter",
        "--broker-conf",
        str(conf),
    ]
    with (cluster.folder / "java-broker.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=STDOUT)
    try:
        await until(lambda: process.returncode is not None or _listens(web_port), START_TIMEOUT_S)
        assert process.returncode is None, (cluster.folder / "java-broker.log").read_text()[-2000:]
        yield JavaBroker(f"pulsar://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{web_port}")
    finally:
        await _end(process)


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.terminate()  # On SIGTERM, the broker releases its topics.
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


async def _know_the_cluster(store: MetadataStore) -> None:
    """Create the metadata that Pulsar's broker needs in order to serve a namespace."""
    quarters = [f"0x{at:08x}" for at in (0, 1 << 30, 2 << 30, 3 << 30, (1 << 32) - 1)]
    default = {
        "bundles": {"boundaries": quarters, "numBundles": 4},
        "replication_clusters": [CLUSTER],
    }
    nodes: dict[str, object] = {
        f"/admin/clusters/{CLUSTER}": {"serviceUrl": "http://localhost"},
        "/admin/policies/public": {"adminRoles": [], "allowedClusters": [CLUSTER]},
        "/admin/policies/public/default": default,
    }
    for path, document in nodes.items():
        try:
            await store.create(path, json.dumps(document).encode())
        except NodeExistsError:
            _, version = await store.get(path)
            await store.set(path, json.dumps(document).encode(), version)


def _configuration(cluster: LocalCluster, port: int, web_port: int) -> str:
    keys = {
        "advertisedAddress": LOOPBACK,
        "bindAddress": LOOPBACK,
        "brokerServicePort": port,
        "webServicePort": web_port,
        "clusterName": CLUSTER,
        "metadataStoreUrl": f"zk:{cluster.zookeeper}",
        "configurationMetadataStoreUrl": f"zk:{cluster.zookeeper}",
        "managedLedgerDefaultEnsembleSize": 2,
        "managedLedgerDefaultWriteQuorum": 2,
        "managedLedgerDefaultAckQuorum": 2,
        "brokerDeleteInactiveTopicsEnabled": "false",
        "loadBalancerEnabled": "false",
        "systemTopicEnabled": "false",
        "topicLevelPoliciesEnabled": "false",
        "brokerShutdownTimeoutMs": 10_000,
    }
    return "".join(f"{key}={value}\n" for key, value in keys.items())
