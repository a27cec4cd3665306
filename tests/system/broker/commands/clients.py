"""The commands of the scripts for producers and connections: clients that exchange frames with a
broker whose ledger stores entries only on command.

    tokens, reject_all   let the broker authenticate clients, or reject all; this comes first
    connect a            connect a client; `connect a alice:100`: with this token; `old` at the end:
                         it cannot be asked for another one; `open a`: without the command CONNECT
    show_token a alice:200
                         let a client show another token
    check a 100          let the broker check the client's token at this time
    register a           register a producer, and connect the client if necessary; `name=x`
                         (default: the client's name), `mode=Exclusive`, `epoch=0`, `id=2`
    produce a            look the topic up first
    send a 0-4           send messages with these sequence ids
    close_producer a, hang_up a, ping a, pong a
    keep_alive a         let the broker check the connection, as it does at intervals
    store 2, fail        let the ledger store the next entries, or fail with all
    fence                let another owner take the topic over
    lose_session         let the broker's session expire
    unload               unload the topic, and do not wait for it
    entries, epoch, producers, topics
                         print what the ledger or the broker has
    wait 1, turn         wait, or run one turn of the event loop

Every line of commands is followed by what each client receives, and whether the broker stops or
continues to read from it.
"""

import asyncio
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from labkit.system.broker.access import EPOCH_PROPERTY
from labkit.system.broker.errors import BrokerError
from labkit.system.broker.protocol.authentication import Identity
from labkit.system.broker.protocol.connection import ClientConnection
from labkit.system.broker.protocol.frames import NO_REQUEST, body_of
from labkit.system.model.errors import BKNotEnoughBookiesException
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, ProducerAccessMode, ServerError
from tests.scripts import Commands, ranges
from tests.system.broker.held import TOPIC, FrameClient, held_broker

TOO_FEW = BKNotEnoughBookiesException("too few")


class ClientCommands(Commands):
    def __init__(self) -> None:
        super().__init__([])
        self._broker = held_broker()
        self._clients: dict[str, FrameClient] = {}
        self._states: dict[str, str] = {}
        self._unloading: set[asyncio.Task[None]] = set()

    async def play(self, line: str) -> list[str]:
        await self.run(line)
        # In virtual time, this returns when nothing is left to do but wait.
        await asyncio.sleep(0.001)
        self._note_ledger()
        told = [(name, "; ".join(self._told(name))) for name in self._clients]
        return [*(f"{name}: {each}" for name, each in told if each), *self.output()]

    def _told(self, name: str) -> Iterator[str]:
        client = self._clients[name]
        responses, client.responses = client.responses, []
        for told, same in groupby(responses, _about):
            if told:
                commands = list(same)
                receipts = [each.send_receipt for each in commands]
                sequence_ids = ranges([each.sequence_id for each in receipts])
                entry_ids = ranges([each.message_id.entryId for each in receipts])
                yield told.format(sequence_ids, entry_ids)
        is_read = "not read" if client.paused else "read again"
        state = "disconnected" if client.closed else is_read
        if state != self._states.get(name, "read again"):
            yield state
        self._states[name] = state

    def _note_ledger(self) -> None:
        """Remember the topic's ledger, so that its entries can be counted when it is closed."""
        if self._broker.topics:
            self._ledger = self._broker.ledger()

    # Clients

    async def open(self, name: str) -> None:
        self._clients[name] = FrameClient(self._broker)

    async def connect(self, name: str, token: str = "", is_old: str = "") -> None:
        if name not in self._clients:
            await self.open(name)
        self._clients[name].say(
            BaseCommand.CONNECT,
            client_version="test",
            protocol_version=20,
            auth_method_name="token",
            auth_data=token.encode(),
            feature_flags={"supports_auth_refresh": not is_old},
        )

    async def show_token(self, client: str, token: str) -> None:
        response = {"auth_method_name": "token", "auth_data": token.encode()}
        self._clients[client].say(BaseCommand.AUTH_RESPONSE, response=response)

    async def register(self, client: str, *options: str) -> None:
        if client not in self._clients:
            await self.connect(client)
        given = {"name": client, "mode": "Shared", "id": "1"}
        given |= dict(option.split("=") for option in options)
        epoch = {"topic_epoch": int(given["epoch"])} if "epoch" in given else {}
        mode = ProducerAccessMode.Value(given["mode"])
        self._clients[client].register(
            given["name"], int(given["id"]), producer_access_mode=mode, **epoch
        )

    async def produce(self, client: str, *options: str) -> None:
        if client not in self._clients:
            await self.connect(client)
        self._clients[client].ask(BaseCommand.LOOKUP, topic=TOPIC)
        await asyncio.sleep(0.001)
        await self.register(client, *options)
        await asyncio.sleep(0.001)
        self._note_ledger()

    async def send(self, client: str, sequence_ids: str | int) -> None:
        first, _, last = str(sequence_ids).partition("-")
        self._clients[client].send_messages(range(int(first), int(last or first) + 1))

    async def close_producer(self, client: str) -> None:
        self._clients[client].close_producer()

    async def hang_up(self, client: str) -> None:
        self._clients[client].close()

    async def ping(self, client: str) -> None:
        self._clients[client].say(BaseCommand.PING)

    async def pong(self, client: str) -> None:
        self._clients[client].say(BaseCommand.PONG)

    # The broker

    async def tokens(self) -> None:
        self._broker = held_broker(authenticate=_identify)

    async def reject_all(self) -> None:
        self._broker = held_broker(authenticate=_reject)

    async def keep_alive(self, client: str) -> None:
        self._connection(client).keep_alive()

    async def check(self, client: str, now_ms: int) -> None:
        self._connection(client).check_credentials(now_ms)

    def _connection(self, client: str) -> ClientConnection:
        wire = self._clients[client]
        [connection] = [each for each in self._broker.connections if each.wire is wire]
        return connection

    async def store(self, count: int) -> None:
        self._ledger.store(count)

    async def fail(self) -> None:
        self._ledger.fail(TOO_FEW)

    async def fence(self) -> None:
        self._ledger.tell_ended[0](TOO_FEW)

    async def lose_session(self) -> None:
        self._broker.lose_session()

    async def unload(self) -> None:
        self._unloading.add(asyncio.create_task(self._broker.unload(TOPIC)))

    async def entries(self) -> None:
        state = "closed" if self._ledger.is_closed else "open"
        self.print_line(f"entries: {len(self._ledger.entries)}; the ledger is {state}")

    async def epoch(self) -> None:
        self.print_line(f"epoch: {self._ledger.kept.get(EPOCH_PROPERTY, 'none')}")

    async def producers(self) -> None:
        [topic] = self._broker.topics
        self.print_line(f"producers: {' '.join(topic.producers) or 'none'}")

    async def topics(self) -> None:
        self.print_line(f"topics: {len(self._broker.topics)}")

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def turn(self) -> None:
        await asyncio.sleep(0)


def _identify(method: str, data: bytes) -> Identity:
    role, _, expires_at_ms = data.decode().partition(":")
    if role == "mallory":
        raise BrokerError(ServerError.AuthenticationError, "mallory is nobody")
    return Identity(role, int(expires_at_ms))


def _reject(method: str, data: bytes) -> Identity:
    raise BrokerError(ServerError.AuthenticationError, "nobody")


def _about(command: BaseCommand) -> str:
    """Return what a command tells the client: `{}` stands for sequence ids and entry ids."""
    about: Any = body_of(command)
    match command.type:
        case BaseCommand.PRODUCER_SUCCESS if about.producer_ready:
            epoch = f" in epoch {about.topic_epoch}" if about.HasField("topic_epoch") else ""
            return f"{about.producer_name} is ready{epoch}"
        case BaseCommand.PRODUCER_SUCCESS:
            assert about.HasField("schema_version")
            return f"{about.producer_name} is queued"
        case BaseCommand.SEND_RECEIPT:
            return f"receipts {{}} for {about.message_id.ledgerId}:{{}}"
        case BaseCommand.CLOSE_PRODUCER if about.request_id == NO_REQUEST:
            return f"producer {about.producer_id} was closed"
        case BaseCommand.ERROR:
            return f"error {ServerError.Name(about.error)}"
        case BaseCommand.SEND_ERROR:
            return f"message {about.sequence_id}: error {ServerError.Name(about.error)}"
        case BaseCommand.AUTH_CHALLENGE:
            return f"challenge: {about.challenge.auth_method_name} {about.challenge.auth_data!r}"
        case BaseCommand.LOOKUP_RESPONSE if about.HasField("error"):
            return f"lookup: error {ServerError.Name(about.error)}"
        case BaseCommand.CONNECTED | BaseCommand.LOOKUP_RESPONSE:
            return ""
        case _:
            return BaseCommand.Type.Name(command.type)
