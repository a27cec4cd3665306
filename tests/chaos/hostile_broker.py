"""Measure what each hostile peer costs a broker: `python -m tests.chaos.hostile_broker`.

Each peer attacks a fresh broker in a separate process for a few seconds. Meanwhile, a well-behaved
client sends messages one at a time, and none of them may fail. Memory is the kernel's figure for
the process. The run updates the table in `docs/security.md`.
"""

import argparse
import asyncio
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pulsar

from labkit.system.broker.protocol.frames import encode_frame
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, CommandSubscribe
from labkit.system.topic.messages import OutgoingMessage, encode_message
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.chaos.costs import ATTACK_S, RECOVERY_S, memory_mib, write_table
from tests.system.broker.client import connect

BROKER = "broker-1"
MIB = 1024 * 1024
TOPIC = "persistent://public/default/hostile"
_FIELDS = {item.number: item.name for item in BaseCommand.DESCRIPTOR.fields}


def command(kind: BaseCommand.Type, message: bytes = b"", **fields: Any) -> bytes:
    """Encode a frame as a client sends it."""
    body = encode_frame(BaseCommand(type=kind, **{_FIELDS[kind]: fields}), message)
    return len(body).to_bytes(4, "big") + body


CONNECT = command(BaseCommand.CONNECT, client_version="hostile", protocol_version=20)


@dataclass
class Host:
    """The host from which a peer attacks, with its connections."""

    port: int
    web_port: int
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def open(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection. All but a few unread bytes stay in the kernel's buffers."""
        reader, writer = await asyncio.open_connection(LOOPBACK, port, limit=1)
        self.writers.append(writer)
        return reader, writer

    async def say(
        self, first: bytes, pieces: Callable[[int], bytes], *, takes: bool = False, port: int = 0
    ) -> None:
        """Send pieces endlessly on one connection; reconnect when disconnected."""
        while True:
            with suppress(OSError):
                reader, writer = await self.open(port or self.port)
                taking = asyncio.create_task(_take_all(reader)) if takes else None
                try:
                    writer.write(first)
                    for number in count():
                        writer.write(pieces(number))
                        await writer.drain()
                        # Without this sleep, a stream of empty pieces would block the event loop
                        # forever.
                        await asyncio.sleep(0)
                finally:
                    if taking is not None:
                        taking.cancel()
            await asyncio.sleep(0.05)

    async def together(self, connections: int, attack: Callable[[], Awaitable[None]]) -> None:
        """Run the attack on many connections simultaneously."""
        await asyncio.gather(*(attack() for _ in range(connections)))

    async def hold(self, connections: int, data: bytes, port: int) -> None:
        """Open connections that send these bytes and then nothing more."""
        for _ in range(connections):
            with suppress(OSError):
                _, writer = await self.open(port)
                writer.write(data)
        await asyncio.sleep(3600)


async def _take_all(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await reader.read(MIB):
            pass


HOST = "Host: localhost\r\nContent-Type: application/json\r\n"


def http(method: str, path: str, body: bytes) -> bytes:
    """Return an HTTP request that keeps its connection open."""
    head = f"{method} {path} HTTP/1.1\r\n{HOST}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def pings_without_reading(host: Host) -> None:
    """20 connections that send requests and never read a response."""
    ping = command(BaseCommand.PING) * 1000
    await host.together(20, lambda: host.say(CONNECT, lambda _: ping))


async def lookups_without_reading(host: Host) -> None:
    """20 connections that look up topics and never read a response."""
    ask = b"".join(
        command(BaseCommand.LOOKUP, topic=f"{TOPIC}-{n}", request_id=n) for n in range(500)
    )
    await host.together(20, lambda: host.say(CONNECT, lambda _: ask))


async def half_frames(host: Host) -> None:
    """150 half frames of 5 MiB."""
    half = (5 * MIB - 4).to_bytes(4, "big") + bytes(5 * MIB - 1000)
    await host.hold(150, CONNECT + half, host.port)


async def silent_connections(host: Host) -> None:
    """3,000 connections that send nothing."""
    await host.hold(3000, b"", host.port)


async def long_names(host: Host) -> None:
    """10 connections that register producers on topics with names of 4 MiB."""
    name = "x" * (4 * MIB)
    ask = command(BaseCommand.PRODUCER, topic=name, producer_id=1, request_id=1)
    await host.together(10, lambda: host.say(CONNECT, lambda _: ask, takes=True))


async def many_producers(host: Host) -> None:
    """A connection that endlessly registers producers with names of 2,000 bytes."""
    lookup = command(BaseCommand.LOOKUP, topic=TOPIC, request_id=1, authoritative=True)

    def ask(number: int) -> bytes:
        return command(
            BaseCommand.PRODUCER,
            topic=TOPIC,
            producer_id=number,
            request_id=number + 2,
            producer_name=f"{number:02000d}",
        )

    await host.say(CONNECT + lookup, ask, takes=True)


async def long_keys(host: Host) -> None:
    """Messages with keys of 4 MiB on a Key_Shared subscription whose consumer acknowledges none."""
    lookup = command(BaseCommand.LOOKUP, topic=TOPIC, request_id=1, authoritative=True)
    register = command(BaseCommand.PRODUCER, topic=TOPIC, producer_id=1, request_id=2)
    subscribe = command(
        BaseCommand.SUBSCRIBE,
        topic=TOPIC,
        subscription="sub",
        subType=CommandSubscribe.Key_Shared,
        consumer_id=1,
        request_id=3,
        initialPosition=CommandSubscribe.Earliest,
    )
    flow = command(BaseCommand.FLOW, consumer_id=1, messagePermits=2**31)

    def send(number: int) -> bytes:
        key = str(number) + "k" * (4 * MIB)
        entry = encode_message(OutgoingMessage(b"x", key, 0, (), number), "p", 1)
        return command(BaseCommand.SEND, entry, producer_id=1, sequence_id=number)

    _, writer = await host.open(host.port)
    writer.write(CONNECT + lookup)
    await asyncio.sleep(1)
    consuming = host.say(CONNECT + subscribe + flow, lambda _: b"", takes=True)
    await asyncio.gather(host.say(CONNECT + register, send, takes=True), consuming)


async def large_bodies(host: Host) -> None:
    """50 HTTP connections with bodies of 90 MB."""
    block, blocks = bytes(90_000), 1000
    path = "/admin/v2/persistent/public/default/x/partitions"
    head = f"PUT {path} HTTP/1.1\r\n{HOST}Content-Length: {blocks * len(block)}\r\n\r\n"

    def piece(number: int) -> bytes:
        return block if number % (blocks + 1) else head.encode()

    await host.together(50, lambda: host.say(b"", piece, takes=True, port=host.web_port))


async def deep_bodies(host: Host) -> None:
    """50 HTTP connections with bodies of a million brackets."""
    body = http("PUT", "/admin/v2/persistent/public/default/x/partitions", b"[" * 1_000_000)
    await host.together(50, lambda: host.say(b"", lambda _: body, takes=True, port=host.web_port))


async def slow_heads(host: Host) -> None:
    """1,000 HTTP connections that never complete their request."""
    await host.hold(1000, b"GET /admin" + b"x" * 60_000, host.web_port)


async def partitions(host: Host) -> None:
    """Topics with a billion partitions, created and deleted over HTTP."""
    path = "/admin/v2/persistent/public/default/billion/partitions"
    both = http("PUT", path, b"1000000000") + http("DELETE", path, b"")
    await host.say(b"", lambda _: both, takes=True, port=host.web_port)


async def schemas(host: Host) -> None:
    """Different schemas of 400 kB, uploaded over HTTP."""

    def post(number: int) -> bytes:
        path = f"/admin/v2/schemas/public/default/s{number // 500}/schema"
        text = f"{number}" + "x" * 400_000
        return http("POST", path, f'{{"type":"STRING","schema":"{text}"}}'.encode())

    await host.say(b"", post, takes=True, port=host.web_port)


PEERS = (
    pings_without_reading,
    lookups_without_reading,
    half_frames,
    silent_connections,
    long_names,
    many_producers,
    long_keys,
    large_bodies,
    deep_bodies,
    slow_heads,
    partitions,
    schemas,
)


class Polite(threading.Thread):
    """A client that sends one message after another and expects a receipt for each."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._client = connect(url)
        self._producer = self._client.create_producer("polite")
        self._ended = threading.Event()
        self.took_ms: list[float] = []
        self.failed = ""

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                begun = time.perf_counter()
                self._producer.send(b"hello")
                self.took_ms.append(1000 * (time.perf_counter() - begun))
        except pulsar.PulsarException as error:
            self.failed = str(error)

    def end(self) -> None:
        self._ended.set()
        self.join()
        self._client.close()


async def measure(cluster: LocalCluster, peer: Callable[[Host], Awaitable[None]]) -> str:
    """Return the table row for a peer. Raises `AssertionError` if the well-behaved client fails."""
    await cluster.restart(BROKER)
    ports = cluster.ports_of(BROKER)
    polite = await asyncio.to_thread(Polite, cluster.service_url)
    rest = memory_mib(ports["pid"], "VmRSS")
    polite.start()
    host = Host(ports["port"], ports["web_port"])
    with suppress(TimeoutError):
        async with asyncio.timeout(ATTACK_S):
            await peer(host)
    for writer in host.writers:
        writer.transport.abort()
    worst = memory_mib(ports["pid"], "VmHWM")
    await asyncio.sleep(RECOVERY_S)
    await asyncio.to_thread(polite.end)
    assert not polite.failed, f"{peer.__name__}: {polite.failed}"
    after = memory_mib(ports["pid"], "VmRSS")
    slow = f"{statistics.median(polite.took_ms):.0f} | {max(polite.took_ms):.0f}"
    return (
        f"| {(peer.__doc__ or '').rstrip('.')} | {rest:.0f} | {worst:.0f} | {after:.0f} | {slow} |"
    )


async def run(names: list[str]) -> list[str]:
    rows = []
    async with LocalCluster(3, brokers=1, traced=False) as cluster:
        for peer in PEERS:
            if not names or peer.__name__ in names:
                rows.append(await measure(cluster, peer))
                sys.stdout.write(rows[-1] + "\n")
                sys.stdout.flush()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peers", nargs="*", help=", ".join(peer.__name__ for peer in PEERS))
    names = parser.parse_args().peers
    rows = asyncio.run(run(names))
    if not names:
        head = (
            "| peer | MiB at rest | at worst | afterwards | median ms | slowest ms |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
        )
        write_table("broker", *head, *rows)


if __name__ == "__main__":
    main()
