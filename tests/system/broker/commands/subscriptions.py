"""The commands of the scripts for a topic's subscriptions: clients that change them concurrently.

    subscribe a shared   let client a subscribe as `sub` from the first of four entries on, with ten
                         permits; also `exclusive`, `reader` (not durable) and `name=other`
    seek a, ack a 1, redeliver a, close_consumer a, unsubscribe a, hang_up a
                         let the client send these commands, or disconnect
    create x, delete x, delete_again x, move x
                         let an administrator create a subscription, delete it with force, delete
                         the deleted one again, or move its cursor to the first entry
    move_again x         let an administrator move the cursor of the deleted one
    reject, accept       let the topic reject clients because it is being deleted, or accept them
    close_topic
    hold, release        let changes of cursors wait, or end
    subscriptions        print the subscriptions and their clients
    cursors              print the names of the cursors

Every line of commands is followed by the results of requests, and by what the clients receive.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, cast

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.errors import BrokerError, code_of
from labkit.system.broker.handlers.consumers import Consumers
from labkit.system.broker.protocol.connection import ClientConnection, Handlers
from labkit.system.broker.protocol.frames import message_id_data
from labkit.system.broker.subscription import Subscription
from labkit.system.broker.topic_subscriptions import TopicSubscriptions
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandSubscribe,
    ServerError,
)
from labkit.system.topic.cursors.cursor import ManagedCursor
from tests.scripts import Commands
from tests.system.broker.held import FIELDS
from tests.system.broker.in_memory import Client, MemoryLedger, message, surroundings

TOPIC = "persistent://public/default/topic"


class DurableCursor(ManagedCursor):
    @property
    def is_durable(self) -> bool:
        return True


class SubscribedLedger(MemoryLedger):
    """A ledger whose cursors are created, stored and deleted only when `gate` is set."""

    def __init__(self) -> None:
        super().__init__([message() for _ in range(4)])
        self.gate = asyncio.Event()
        self.gate.set()
        self.by_name: dict[str, ManagedCursor] = {}

    @property
    def cursors(self) -> Mapping[str, ManagedCursor]:
        return self.by_name

    @property
    def terminated(self) -> None:
        return None

    def when_confirmed(self, action: Callable[[], None]) -> None:
        """Do nothing, because these tests store no entries."""

    async def open_cursor(
        self, name: str, *_: Any, durable: bool = True, **__: Any
    ) -> ManagedCursor:
        await self._wait()
        kind = DurableCursor if durable else ManagedCursor
        cursor = self.by_name.setdefault(name, self.cursor(kind=kind))
        cursor.name = name
        cursor.flush = self._wait  # type: ignore[method-assign]
        return cursor

    async def delete_cursor(self, name: str) -> None:
        await self._wait()
        del self.by_name[name]

    async def _wait(self) -> None:
        await self.gate.wait()


class Topic:
    """A topic with the attributes that consumers use."""

    name = TOPIC
    is_ended = False

    def __init__(self) -> None:
        self.ledger = SubscribedLedger()
        self.producers: dict[str, object] = {}
        self.subscriptions = TopicSubscriptions(self.ledger, surroundings())


class WiredClient(Client):
    """A client whose commands are passed to the broker's handlers. It also stands in for those
    parts of its connection and of the broker that `Consumers` uses.
    """

    def __init__(self, topic: Topic) -> None:
        super().__init__()
        self._topic = topic
        self.schemas = self
        self.is_closed = False
        self.role = ""
        self._handlers: Handlers = {}
        self._close_actions: list[Callable[[], None]] = []
        Consumers(cast(BrokerService, self), cast(ClientConnection, self))

    def register_handlers(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def when_writable(self, action: Callable[[], None]) -> None:
        """Do nothing, because this client always reads."""

    def when_closed(self, action: Callable[[], None]) -> None:
        self._close_actions.append(action)

    async def check_permission(self, *_: object, **__: object) -> None:
        """Allow everything."""

    def error_response(self, error: BrokerError) -> tuple[ServerError, str]:
        return code_of(error), str(error)

    async def topic(self, _: str) -> Topic:
        return self._topic

    async def check_exists(self, _: str) -> None:
        """Accept every topic as existing."""

    async def check_consumer(self, *_: object, **__: object) -> None:
        """Accept every schema."""

    # The client's end

    async def say(self, kind: "BaseCommand.Type", **fields: Any) -> None:
        """Send a command, and wait until the broker has carried it out."""
        command = BaseCommand(type=kind, **{FIELDS[kind]: {"consumer_id": 1, **fields}})
        work = self._handlers[kind](command, b"")
        if work is not None:
            await cast(Any, work)

    def close(self) -> None:
        self.is_closed = True
        for action in self._close_actions:
            action()


class SubscriptionCommands(Commands):
    def __init__(self) -> None:
        super().__init__([])
        self._topic = Topic()
        self._clients: dict[str, WiredClient] = {}
        self._probes: dict[str, int] = {}
        self._deleted: dict[str, Subscription] = {}
        self._working: set[asyncio.Task[None]] = set()

    async def play(self, line: str) -> list[str]:
        await self.run(line)
        await asyncio.sleep(0.001)
        told = [(name, "; ".join(self._told(name))) for name in self._clients]
        return [*self.output(), *(f"{name}: {each}" for name, each in told if each)]

    def _told(self, name: str) -> Iterator[str]:
        client = self._clients[name]
        yield from client.told(_about)
        if client.probes > self._probes.get(name, 0):
            yield "probed"
        self._probes[name] = client.probes

    async def _work(self, about: str, work: Awaitable[object], done: str = "done") -> None:
        """Start a request, give it time to end, and print its result when it has ended."""

        async def worked() -> None:
            try:
                await work
            except BrokerError as error:
                self.print_line(f"{about}: {ServerError.Name(error.code)}: {error}")
            else:
                if done:
                    self.print_line(f"{about}: {done}")

        self._working.add(asyncio.create_task(worked()))
        await asyncio.sleep(0.001)

    # Clients

    async def subscribe(self, name: str, *options: str) -> None:
        client = self._clients.setdefault(name, WiredClient(self._topic))
        names = [option.removeprefix("name=") for option in options if option.startswith("name=")]
        kind = CommandSubscribe.Shared if "shared" in options else CommandSubscribe.Exclusive

        async def subscribed() -> None:
            await client.say(
                BaseCommand.SUBSCRIBE,
                topic=TOPIC,
                subscription=names[0] if names else "sub",
                subType=kind,
                request_id=1,
                durable="reader" not in options,
                initialPosition=CommandSubscribe.Earliest,
            )
            await client.say(BaseCommand.FLOW, messagePermits=10)

        await self._work(f"subscribe {name}", subscribed(), "")

    async def seek(self, name: str) -> None:
        start = message_id_data((10, 0))
        seeking = self._clients[name].say(BaseCommand.SEEK, request_id=2, message_id=start)
        await self._work(f"seek {name}", seeking, "")

    async def ack(self, name: str, entry_id: int) -> None:
        ids = [message_id_data((10, entry_id))]
        kind = CommandAck.Individual
        await self._clients[name].say(BaseCommand.ACK, ack_type=kind, request_id=4, message_id=ids)

    async def redeliver(self, name: str) -> None:
        await self._clients[name].say(BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES)

    async def close_consumer(self, name: str) -> None:
        await self._clients[name].say(BaseCommand.CLOSE_CONSUMER, request_id=3)

    async def unsubscribe(self, name: str) -> None:
        deleting = self._clients[name].say(BaseCommand.UNSUBSCRIBE, request_id=5)
        await self._work(f"unsubscribe {name}", deleting, "")

    async def hang_up(self, name: str) -> None:
        self._clients[name].close()

    # Administrators

    def _find(self, name: str) -> Subscription:
        [found] = [each for each in self._topic.subscriptions.all if each.name == name]
        return found

    async def create(self, name: str) -> None:
        await self._work(f"create {name}", self._topic.subscriptions.create(name))

    async def delete(self, name: str) -> None:
        self._deleted[name] = self._find(name)
        await self.delete_again(name)

    async def delete_again(self, name: str) -> None:
        deleting = self._topic.subscriptions.unsubscribe(self._deleted[name], None, force=True)
        await self._work(f"delete {name}", deleting)

    async def move(self, name: str) -> None:
        moving = self._topic.subscriptions.seek(self._find(name), (10, 0))
        await self._work(f"move {name}", moving)

    async def move_again(self, name: str) -> None:
        moving = self._topic.subscriptions.seek(self._deleted[name], (10, 0))
        await self._work(f"move {name}", moving)

    async def reject(self) -> None:
        self._topic.subscriptions.rejects_clients = True

    async def accept(self) -> None:
        self._topic.subscriptions.rejects_clients = False

    async def close_topic(self) -> None:
        await self._work("close_topic", self._topic.subscriptions.close())

    async def hold(self) -> None:
        self._topic.ledger.gate.clear()

    async def release(self) -> None:
        self._topic.ledger.gate.set()
        await asyncio.sleep(0.001)

    # The state

    async def subscriptions(self) -> None:
        names = {id(client): name for name, client in self._clients.items()}
        found = [
            " ".join([f"{each.name}:", *(names[id(c.connection)] for c in each.consumers)])
            for each in self._topic.subscriptions.all
        ]
        self.print_line(f"subscriptions: {'; '.join(found) or 'none'}")

    async def cursors(self) -> None:
        self.print_line(f"cursors: {' '.join(self._topic.ledger.by_name) or 'none'}")


def _about(command: BaseCommand) -> str:
    """Return what a client was told, with `{}` for the ids of entries."""
    if command.type == BaseCommand.MESSAGE:
        return "10:{}"
    if command.type == BaseCommand.ACK_RESPONSE:
        return f"ACK_RESPONSE {ServerError.Name(command.ackResponse.error)}"
    return BaseCommand.Type.Name(command.type)
