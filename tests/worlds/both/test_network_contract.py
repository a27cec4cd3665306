"""The contract of the network port, tested on TCP and on the simulated network.

Each rule is a function that is checked in both worlds.
"""

import asyncio
from collections.abc import Callable

import pytest

from tests.until import until
from tests.worlds.both.networks import Rule, Side, World, hold_live, hold_simulated

RULES: list[Rule] = []
NUMBERS = [b"%d" % number for number in range(300)]


def rule(function: Rule) -> Rule:
    RULES.append(function)
    return function


async def connected(world: World) -> tuple[Side, Side]:
    """Return the client's and the server's end of a new connection."""
    count = len(world.servers)
    client = await world.connect()
    await until(lambda: len(world.servers) > count)
    return client, world.servers[-1]


async def closed(*sides: Side) -> None:
    await until(lambda: all(side.closed_count for side in sides))


async def send_while_writable(side: Side) -> int:
    """Send up to 1,000 frames while the end is writable, and return how many were sent."""
    sent = 0
    while side.end.is_writable and sent < 1000:
        side.end.send([bytes(100_000)])
        sent += 1
        await asyncio.sleep(0)
    return sent


@rule
async def connecting_to_nobody_is_refused(world: World) -> None:
    with pytest.raises(ConnectionRefusedError):
        await world.connect_to_nobody()


@rule
async def frames_of_one_send_come_in_order_and_both_ends_are_writable(world: World) -> None:
    client, server = await connected(world)
    client.end.send(NUMBERS)
    await until(lambda: len(server.bodies) == len(NUMBERS))
    assert server.bodies == NUMBERS
    assert client.end.is_writable
    assert server.end.is_writable


@rule
async def frames_of_many_sends_come_in_order_each_once(world: World) -> None:
    client, server = await connected(world)
    for number, body in enumerate(NUMBERS):
        client.end.send([body])
        if number % 50 == 0:
            await asyncio.sleep(0)
    await until(lambda: len(server.bodies) >= len(NUMBERS))
    assert server.bodies == NUMBERS


@rule
async def an_end_is_not_writable_while_the_other_takes_nothing(world: World) -> None:
    client, server = await connected(world)
    told: list[bool] = []
    server.end.when_writable(lambda: told.append(server.end.is_writable))
    client.end.pause()
    sent = await send_while_writable(server)
    await asyncio.sleep(0.05)
    assert not server.end.is_writable
    assert told == []
    client.end.resume()
    await until(lambda: told)
    await until(lambda: len(client.bodies) == sent)
    assert server.end.is_writable
    assert all(told)


@rule
async def what_is_sent_to_one_that_takes_nothing_comes_in_order(world: World) -> None:
    client, server = await connected(world)
    client.end.pause()
    sent = await send_while_writable(server)
    server.end.send(NUMBERS)
    client.end.resume()
    await until(lambda: len(client.bodies) == sent + len(NUMBERS))
    assert client.bodies[sent:] == NUMBERS


@rule
async def one_that_takes_nothing_makes_no_other_unwritable(world: World) -> None:
    (client, server), (other, other_server) = await connected(world), await connected(world)
    client.end.pause()
    await send_while_writable(server)
    other_server.end.send(NUMBERS)
    await until(lambda: len(other.bodies) == len(NUMBERS))
    assert other_server.end.is_writable


@rule
async def sends_of_one_turn_are_received_in_fewer_batches(world: World) -> None:
    client, server = await connected(world)
    for body in NUMBERS:
        client.end.send([body])
    await until(lambda: len(server.bodies) == len(NUMBERS))
    assert len(server.batches) < len(NUMBERS)


@rule
async def an_empty_frame_is_a_frame(world: World) -> None:
    client, server = await connected(world)
    client.end.send([b"", b"x", b""])
    await until(lambda: len(server.bodies) == 3)
    assert server.bodies == [b"", b"x", b""]


@rule
async def both_directions_are_apart(world: World) -> None:
    client, server = await connected(world)
    client.end.send([b"question"])
    server.end.send([b"unasked"])
    await until(lambda: client.bodies and server.bodies)
    assert (client.bodies, server.bodies) == ([b"unasked"], [b"question"])


@rule
async def two_connections_are_apart(world: World) -> None:
    (first, first_server), (second, second_server) = await connected(world), await connected(world)
    second.end.send([b"two"])
    await until(lambda: second_server.bodies)
    assert (first_server.bodies, second_server.bodies) == ([], [b"two"])
    second.end.close()
    await closed(second_server)
    first.end.send([b"one"])
    await until(lambda: first_server.bodies)
    assert first.closed_count == first_server.closed_count == 0


@rule
async def a_close_by_either_end_tells_both_ends_once_and_never_from_within(world: World) -> None:
    client, server = await connected(world)
    other_client, other_server = await connected(world)
    for closing, other in ((client, server), (other_server, other_client)):
        closing.end.close()
        closing.end.close()
        assert closing.closed_count == 0
        await closed(closing, other)
        other.end.close()
        await asyncio.sleep(0.05)
        assert (closing.closed_count, other.closed_count) == (1, 1)


@rule
async def what_was_sent_before_a_close_arrives_before_it(world: World) -> None:
    client, server = await connected(world)
    client.end.send(NUMBERS)
    client.end.close()
    await closed(server)
    assert server.bodies == NUMBERS
    assert server.heard_at_close == len(NUMBERS)


@rule
async def a_send_after_a_close_is_dropped(world: World) -> None:
    client, server = await connected(world)
    client.end.close()
    client.end.send([b"too late"])
    await closed(client, server)
    client.end.send([b"much too late"])
    server.end.send([b"nobody there"])
    await asyncio.sleep(0.05)
    assert (client.bodies, server.bodies) == ([], [])


@rule
async def whoever_waits_is_told_once_in_the_order_of_asking(world: World) -> None:
    client, _ = await connected(world)
    told: list[str] = []
    client.end.when_closed(lambda: told.append("first"))
    client.end.when_closed(lambda: told.append("second"))
    client.end.close()
    await until(lambda: len(told) == 2)
    await asyncio.sleep(0.05)
    assert told == ["first", "second"]
    assert client.closed_count == 1


@rule
async def a_paused_end_lets_frames_wait_and_then_gets_them_in_order(world: World) -> None:
    client, server = await connected(world)
    server.end.pause()
    for body in NUMBERS:
        client.end.send([body])
    await asyncio.sleep(0.05)
    assert server.bodies == []
    server.end.send([b"still talks"])
    await until(lambda: client.bodies)
    server.end.resume()
    await until(lambda: len(server.bodies) == len(NUMBERS))
    assert server.bodies == NUMBERS


@rule
async def pausing_and_resuming_twice_is_as_once(world: World) -> None:
    client, server = await connected(world)
    server.end.pause()
    server.end.pause()
    client.end.send([b"waits"])
    await asyncio.sleep(0.05)
    assert server.bodies == []
    server.end.resume()
    server.end.resume()
    await until(lambda: server.bodies)
    client.end.send([b"comes"])
    await until(lambda: len(server.bodies) == 2)
    assert server.bodies == [b"waits", b"comes"]


@rule
async def a_paused_end_learns_of_the_close_after_what_waits(world: World) -> None:
    client, server = await connected(world)
    server.end.pause()
    client.end.send([b"last words"])
    client.end.close()
    await closed(client)
    await asyncio.sleep(0.05)
    assert (server.bodies, server.closed_count) == ([], 0)
    server.end.resume()
    await closed(server)
    assert server.bodies == [b"last words"]


@pytest.mark.parametrize("hold", [hold_live, hold_simulated], ids=["live", "simulated"])
@pytest.mark.parametrize("each", RULES, ids=lambda function: function.__name__)
def test_network(each: Rule, hold: Callable[[Rule], None]) -> None:
    hold(each)
