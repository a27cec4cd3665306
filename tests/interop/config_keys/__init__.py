"""Read the keys of BookKeeper's and Pulsar's configuration classes from their jars.

    python -m tests.interop.config_keys

This command rewrites the lists in tests/worlds/live/config/keys, against which the tests compare
labkit's tables of keys.
"""

import subprocess
from pathlib import Path

from tests.interop.apache import fetch_jars

HERE = Path(__file__).parent
KEYS = HERE.parents[1] / "worlds" / "live" / "config" / "keys"
TIMEOUT_S = 60

BOOKKEEPER = "bookkeeper-4.18.0.txt"
PULSAR = "pulsar-4.2.4.txt"

_BOOKKEEPER_CLASSES = tuple(
    f"org.apache.bookkeeper.{name}"
    for name in (
        "conf.AbstractConfiguration",
        "conf.ServerConfiguration",
        "conf.ClientConfiguration",
        "bookie.storage.ldb.DbLedgerStorage",
        "bookie.storage.ldb.SingleDirectoryDbLedgerStorage",
        "bookie.storage.ldb.KeyValueStorageRocksDB",
    )
)
_PULSAR_CLASSES = ("org.apache.pulsar.broker.ServiceConfiguration",)

_NO_KEYS = {
    "available",
    "default",
    "org.apache.bookkeeper.conf.readsystemproperties",
    "standard",
    "system",
}
"""Other constants of BookKeeper's classes, which are not keys."""

_OF_THE_MACHINE = {
    "managedLedgerCacheSizeMB",
    "maxMessagePublishBufferSizeInMB",
    "narExtractionDirectory",
    "numExecutorThreadPoolSize",
    "numHttpServerThreads",
    "numIOThreads",
    "bookkeeperClientNumIoThreads",
    "bookkeeperClientNumWorkerThreads",
    "managedLedgerNumSchedulerThreads",
    "topicOrderedExecutorThreadNum",
    "webSocketConnectionsPerBroker",
    "webSocketNumIoThreads",
    "managedLedgerOffloadReadThreads",
    "numTransactionReplayThreadPoolSize",
    "webSocketNumServiceThreads",
    "numOrderedExecutorThreads",
}
"""Pulsar keys whose default value depends on the machine."""


def committed(name: str) -> list[str]:
    """Return the lines of a list in tests/worlds/live/config/keys."""
    return (KEYS / name).read_text(encoding="utf-8").splitlines()


def in_the_jars() -> dict[str, list[str]]:
    """Return the expected contents of each list, by the name of the list. Raises `NotToBeHad`."""
    jars = fetch_jars("config-keys", HERE / "pom.xml")
    constants = _run(jars, _BOOKKEEPER_CLASSES)
    names = {line for line in constants if line.replace(".", "").replace("_", "").isalnum()}
    fields = (line.partition("=") for line in _run(jars, _PULSAR_CLASSES))
    return {
        BOOKKEEPER: sorted(names - _NO_KEYS),
        PULSAR: sorted(
            f"{key}={'' if key in _OF_THE_MACHINE else default}" for key, _, default in fields
        ),
    }


def _run(jars: Path, classes: tuple[str, ...]) -> list[str]:
    command = ["java", "-cp", f"{jars}/*", str(HERE / "ConfigKeys.java"), *classes]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=TIMEOUT_S)
    return done.stdout.splitlines()
