"""Tests that rows are written exactly once through Pulsar's own broker, with its deduplication."""

import asyncio
import json
from pathlib import Path

import pytest

from labkit.system.broker.policies import policies_path
from labkit.views.spark.bookkeeper.writing.sending import Attempt
from labkit.views.spark.bookkeeper.writing.write_options import WriteError, WriteOptions
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.interop.java_broker import java_broker
from tests.system.broker.client import connect
from tests.views.spark.bookkeeper.sender import interrupt, messages, stored, write

pytestmark = [
    pytest.mark.interop,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
]


async def test_pulsars_broker_drops_what_an_interrupted_task_has_stored(pulsar_jars: Path) -> None:
    async with LocalCluster(2, traced=False) as cluster, java_broker(cluster, pulsar_jars) as java:
        options = WriteOptions(java.service_url, "persistent://public/default/t", retry_s=60)
        await asyncio.to_thread(_refuse_without_deduplication, options)
        store = (await cluster.connect()).store
        path = policies_path("public/default")
        data, version = await store.get(path)
        policies = {**json.loads(data), "deduplicationEnabled": True}
        await store.set(path, json.dumps(policies).encode(), version)
        once = WriteOptions(java.service_url, "persistent://public/default/once", retry_s=60)
        await asyncio.to_thread(_repeat, once)


def _refuse_without_deduplication(options: WriteOptions) -> None:
    with pytest.raises(WriteError, match="deduplication is disabled for persistent://public/"):
        write(options, messages(options, 10), Attempt("task", 0))


def _repeat(options: WriteOptions) -> None:
    rows = messages(options, 4500)
    for count in (1001, 3500):
        interrupt(options, rows[:count], Attempt("task", 0))
    for batch_id in (0, 0, 1):
        write(options, rows, Attempt("task", batch_id))
    changed = [*rows[:7], *reversed(rows[7:])]
    with pytest.raises(WriteError, match="cannot be repeated exactly once"):
        write(options, changed, Attempt("task", 1))
    client = connect(options.service_url)
    assert stored(client, options) == [*range(4500), *range(4500)]
    client.close()
