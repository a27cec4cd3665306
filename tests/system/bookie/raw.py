"""A client that writes bytes to a bookie's socket and reads bytes back: no codec in between."""

import asyncio
import struct
from typing import Self

from tests.until import DEADLINE_S

KEY = bytes.fromhex("850bf1071c5e3d8c24235676f8816ae0cbe2f14f")
"""The master key of the empty password."""

OK, NO_LEDGER, NO_ENTRY = 0, 1, 2
BAD_REQUEST, IO_ERROR, UNAUTHORIZED, BAD_VERSION, FENCED = 100, 101, 102, 103, 104
FENCE, RECOVERY_ADD = 1, 2


def entry(ledger_id: int, entry_id: int, payload: bytes = b"hello") -> bytes:
    """An entry as a bookie stores it; a bookie does not look at the digest."""
    return struct.pack(">qqqq4s", ledger_id, entry_id, -1, len(payload), b"crc!") + payload


def add(
    ledger_id: int, entry_id: int, payload: bytes = b"hello", flags: int = 0, key: bytes = KEY
) -> bytes:
    """An add request's frame."""
    return frame(struct.pack(">BBH", 2, 1, flags) + key + entry(ledger_id, entry_id, payload))


def read(ledger_id: int, entry_id: int, flags: int = 0, key: bytes = b"") -> bytes:
    """A read request's frame."""
    return frame(struct.pack(">BBHqq", 2, 2, flags, ledger_id, entry_id) + key)


def answer(opcode: int, code: int, ledger_id: int, entry_id: int, data: bytes = b"") -> bytes:
    """The frame of an answer."""
    return frame(struct.pack(">BBHiqq", 2, opcode, 0, code, ledger_id, entry_id) + data)


def added(ledger_id: int, entry_id: int, code: int = OK) -> bytes:
    """The frame that answers an add."""
    return answer(1, code, ledger_id, entry_id)


def frame(body: bytes) -> bytes:
    """A body behind its length."""
    return struct.pack(">I", len(body)) + body


class RawClient:
    """A connection to a bookie."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._writer.close()

    async def send(self, data: bytes) -> None:
        """Write, and wait until the bytes have left this process."""
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self) -> bytes:
        """The next frame."""
        async with asyncio.timeout(DEADLINE_S):
            head = await self._reader.readexactly(4)
            return head + await self._reader.readexactly(int.from_bytes(head, "big"))

    async def ask(self, data: bytes) -> bytes:
        """Write, and return the next frame."""
        await self.send(data)
        return await self.receive()

    async def is_closed(self) -> bool:
        """Whether the bookie ends the connection and says nothing more."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                return await self._reader.read() == b""
            except ConnectionResetError:
                return True
