"""Tests for the tenants and namespaces that the first broker of a cluster creates."""

from typing import Any

from labkit.system.broker.ownership import BrokerAddress
from labkit.system.broker.policies import policies_path
from labkit.system.broker.tenants import join_cluster
from tests.system.client.memory_store import MemoryStore


class _RecordingStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.created: list[str] = []

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        self.created.append(path)
        return await super().create(path, data, ephemeral=ephemeral, sequential=sequential)


async def test_namespaces_are_created_in_alphabetical_order_so_that_a_run_can_be_replayed() -> None:
    store: Any = _RecordingStore()
    used = [f"t/n{number}" for number in range(10)]
    for namespace in used:
        store.tree.create(f"/managed-ledgers/{namespace}/persistent", b"", 0, False)
    await join_cluster(store, "", BrokerAddress("127.0.0.1:8080", "pulsar://127.0.0.1:6650"))
    namespaces = [path for path in store.created if path.count("/") == 4]
    assert namespaces == [policies_path(each) for each in ["public/default", *used]]
