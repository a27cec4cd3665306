"""If a request forwarded to another broker fails, the error gives that broker's reason or a clear
one.
"""

import asyncio
from dataclasses import replace

import pytest

from labkit.worlds.live.admin.call import Call, StatusError
from labkit.worlds.live.admin.partitions import forward
from labkit.worlds.live.host.ports import LOOPBACK
from tests.system.broker.held import held_broker

PATH = "/admin/v2/persistent/t/n/x-partition-0/stats"


async def answer_to_forwarded(response: bytes) -> object:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)
        writer.close()

    broker = held_broker()
    async with await asyncio.start_server(respond, LOOPBACK) as server:
        port = server.sockets[0].getsockname()[1]
        broker.address = replace(broker.address, web_url=f"http://{LOOPBACK}:{port}")
        call = Call(broker, ("t", "n", "x"), {}, None, "GET", "", "")
        return await forward(call, PATH, "GET")


def rejection(body: str, status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    ("response", "status", "message"),
    [
        (rejection('{"reason": "in use"}', "412 Precondition Failed"), 412, "in use"),
        (rejection("<html>a proxy's page", "502 Bad Gateway"), 502, "502"),
        (rejection('["no reason"]', "500 Internal Server Error"), 500, "500"),
        (b"", 503, "not responding"),
    ],
)
async def test_error_response_becomes_an_error_of_the_request(
    response: bytes, status: int, message: str
) -> None:
    with pytest.raises(StatusError, match=message) as raised:
        await answer_to_forwarded(response)
    assert raised.value.status == status
