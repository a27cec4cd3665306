"""An in-memory metadata store that loses requests and responses."""

import asyncio

from labkit.system.metadata.store import ANY_VERSION, MetadataUnavailableError
from tests.system.client.memory_store import MemoryStore


class LossyStore(MemoryStore):
    """Loses the next changes as listed in `lose`.

    "request": the change is not carried out; "answer": the change is carried out, but the response
    is lost; "caller": the change is carried out, but the caller is cancelled in the meantime; "":
    nothing is lost.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lose: list[str] = []

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        if self._reaches_server():
            path = await super().create(path, data, ephemeral=ephemeral, sequential=sequential)
        self._respond()
        return path

    async def create_child(self, path: str, data: bytes, parent_version: int) -> None:
        if self._reaches_server():
            await super().create_child(path, data, parent_version)
        self._respond()

    async def set(self, path: str, data: bytes, version: int) -> int:
        if self._reaches_server():
            version = await super().set(path, data, version)
        self._respond()
        return version

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        if self._reaches_server():
            await super().delete(path, version)
        self._respond()

    def _reaches_server(self) -> bool:
        return self.lose[:1] != ["request"]

    def _respond(self) -> None:
        lost = self.lose.pop(0) if self.lose else ""
        if lost == "caller":
            raise asyncio.CancelledError
        if lost:
            raise MetadataUnavailableError(f"the {lost} was lost")
