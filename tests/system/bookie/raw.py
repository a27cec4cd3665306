"""A client that exchanges raw bytes with a bookie over a socket, without using labkit's codec."""

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
    """Return an entry as a bookie stores it, with a dummy digest that the bookie does not check."""
    return struct.pack(">qqqq4s", ledger_id, entry_id, -1, len(payload), b"crc!") + payload


def add(
    ledger_id: int, entry_id: int, payload: bytes = b"hello", flags: int = 0, key: bytes = KEY
) -> bytes:
    """Return the frame of an add request."""
    return frame(struct.pack(">BBH", 2, 1, flags) + key + entry(ledger_id, entry_id, payload))


def read(ledger_id: int, entry_id: int, flags: int = 0, key: bytes = b"") -> bytes:
    """Return the frame of a read request."""
    return frame(struct.pack(">BBHqq", 2, 2, flags, ledger_id, entry_id) + key)


def answer(opcode: int, code: int, ledger_id: int, entry_id: int, data: bytes = b"") -> bytes:
    """Return the frame of a response."""
    return frame(struct.pack(">BBHiqq", 2, opcode, 0, code, ledger_id, entry_id) + data)


def added(ledger_id: int, entry_id: int, code: int = OK) -> bytes:
    """Return the frame of a response to an add."""
    return answer(1, code, ledger_id, entry_id)


def frame(body: bytes) -> bytes:
    """Return the body prefixed with its length."""
    return struct.pack(">I", len(body)) + body


class RawClient:
    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._writer.close()

    async def send(self, data: bytes) -> None:
        """Write the data and wait until the write buffer has been drained."""
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self) -> bytes:
        """Return the next frame."""
        async with asyncio.timeout(DEADLINE_S):
            head = await self._reader.readexactly(4)
            return head + await self._reader.readexactly(int.from_bytes(head, "big"))

    async def ask(self, data: bytes) -> bytes:
        """Send a request and return the next frame."""
        await self.send(data)
        return await self.receive()

    async def is_closed(self) -> bool:
        """Wait for the bookie to close the connection; return false if the bookie sends anything
        first.
        """
        async with asyncio.timeout(DEADLINE_S):
            try:
                return await self._reader.read() == b""
            except ConnectionResetError:
                return True
