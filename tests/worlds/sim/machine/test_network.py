"""Tests the simulated network: guarantees of a connection, and effects of faults on links."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import pytest

from labkit.worlds.sim.machine.decisions import Decisions
from labkit.worlds.sim.machine.links import LATENCY_S, Choose, Parcel, Purpose
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.machine.network import End, NodeNetwork, SimNetwork
from labkit.worlds.sim.machine.process import NodeClock, Process

PORT = 7


class Pair:
    """A client `w` and a server `b`, with a record of the frames that each has received."""

    def __init__(self, loop: SimLoop, seed: int | None, chosen: Mapping[str, float]) -> None:
        self.loop = loop
        self.network = SimNetwork(loop, Decisions(seed, chosen, lambda: 0), lambda *_, **__: None)
        self.received: list[list[bytes]] = []
        self.answers: list[list[bytes]] = []
        self.closed: list[str] = []
        self.server_ends: list[End] = []
        self.w, self.b = self.start("w"), self.start("b")

    def start(self, name: str) -> Process:
        process = Process(name, NodeClock())
        self.loop.start(process)
        self.network.started(process)
        if name == "b":
            NodeNetwork(self.network, process).listen(self.accept, PORT)
        return process

    def accept(self, end: End) -> Callable[[Sequence[bytes]], None]:
        self.server_ends.append(end)
        end.when_closed(lambda: self.closed.append("b"))
        return lambda bodies: self.received.append(list(bodies))

    def kill_server(self, *, silently: bool) -> None:
        """Kill the server's process, or its machine if `silently`."""
        self.b.kill()
        self.network.died(self.b, silently=silently)

    def choose_last(self) -> list[list[str]]:
        """Deliver the last of the possible messages from now on; return what is possible each
        time.
        """
        possible: list[list[str]] = []

        def choose(parcels: Sequence[Parcel]) -> int:
            possible.append([str(parcel) for parcel in parcels])
            return len(parcels) - 1

        self.choose(choose)
        return possible

    def choose(self, choose: Choose) -> None:
        """Deliver the messages in this order from now on."""
        self.network.transit.choose = choose
        self.loop.on_idle = self.network.transit.deliver_chosen

    async def connect(self) -> End:
        network = NodeNetwork(self.network, self.w)
        return await self.w.spawn(
            network.connect(
                "b",
                PORT,
                lambda bodies: self.answers.append(list(bodies)),
                lambda: self.closed.append("w"),
            )
        )


def with_pair(
    seed: int | None = None, chosen: Mapping[str, float] | None = None
) -> Callable[[Callable[[Pair], Coroutine[Any, Any, None]]], Callable[[], None]]:
    """Run the test with a client and a server in virtual time."""

    def in_virtual_time(test: Callable[[Pair], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        def run() -> None:
            loop = SimLoop(time_limit_s=1000)
            loop.run(test(Pair(loop, seed, chosen or {})))

        return run

    return in_virtual_time


def flat(received: list[list[bytes]]) -> list[bytes]:
    return [body for bodies in received for body in bodies]


NUMBERS = [b"%d" % number for number in range(200)]


@with_pair(seed=3)
async def test_frames_arrive_in_order_whatever_the_delays(pair: Pair) -> None:
    pair.network.set_late_share(0.5)
    end = await pair.connect()
    for frame in NUMBERS:
        end.send([frame])
        await asyncio.sleep(0.001)
    await asyncio.sleep(1)
    assert flat(pair.received) == NUMBERS
    assert len(pair.received) < len(NUMBERS)


@with_pair(chosen={"delay w>b 1": 50})
async def test_a_decision_delays_one_message_and_all_behind_it(pair: Pair) -> None:
    end = await pair.connect()
    end.send([b"late"])
    await asyncio.sleep(0.01)
    end.send([b"behind"])
    await asyncio.sleep(0.03)
    assert pair.received == []
    await asyncio.sleep(0.02)
    assert pair.received == [[b"late", b"behind"]]


@with_pair()
async def test_a_machine_whose_process_was_killed_refuses_until_it_runs_again(pair: Pair) -> None:
    pair.kill_server(silently=False)
    with pytest.raises(ConnectionRefusedError):
        await pair.connect()
    pair.b = pair.start("b")
    await pair.connect()
    for silently, error in ((True, TimeoutError), (False, ConnectionRefusedError)) * 2:
        pair.kill_server(silently=silently)
        with pytest.raises(error):
            await pair.connect()


@with_pair()
async def test_while_a_link_is_cut_messages_wait_and_then_come_in_order(pair: Pair) -> None:
    end = await pair.connect()
    pair.network.link("w", "b").cut()
    end.send([b"1"])
    await asyncio.sleep(1)
    end.send([b"2"])
    await asyncio.sleep(5)
    assert pair.received == []
    pair.network.link("w", "b").heal()
    end.send([b"3"])
    await asyncio.sleep(1)
    assert flat(pair.received) == [b"1", b"2", b"3"]


@with_pair()
async def test_a_link_can_be_cut_in_one_direction_only(pair: Pair) -> None:
    end = await pair.connect()
    pair.network.link("b", "w").cut()
    end.send([b"question"])
    await asyncio.sleep(1)
    pair.server_ends[0].send([b"answer"])
    await asyncio.sleep(1)
    assert pair.received == [[b"question"]]
    assert pair.answers == []


@with_pair()
async def test_a_connection_cannot_be_made_over_a_cut_link(pair: Pair) -> None:
    pair.network.link("b", "w").cut()
    with pytest.raises(TimeoutError):
        await pair.connect()
    pair.network.link("b", "w").heal()
    await asyncio.sleep(1)
    assert pair.closed == ["b"]


@with_pair()
async def test_a_connection_that_ends_in_the_turn_in_which_it_was_made_is_reset(pair: Pair) -> None:
    back = pair.network.link("b", "w")
    back.cut()
    connecting = asyncio.create_task(pair.connect())
    await asyncio.sleep(1)
    pair.kill_server(silently=False)
    back.heal()
    with pytest.raises(ConnectionResetError):
        await connecting
    assert pair.closed == ["w"]


@with_pair()
async def test_a_killed_process_closes_its_connections(pair: Pair) -> None:
    await pair.connect()
    pair.kill_server(silently=False)
    await asyncio.sleep(1)
    assert pair.closed == ["w"]


@with_pair()
async def test_a_machine_without_power_says_nothing_until_it_is_up_and_asked(pair: Pair) -> None:
    end = await pair.connect()
    pair.kill_server(silently=True)
    end.send([b"?"])
    await asyncio.sleep(100)
    assert pair.closed == []
    pair.start("b")
    await asyncio.sleep(1)
    assert pair.closed == ["w"]
    assert pair.received == []


@with_pair()
async def test_the_second_death_of_a_machine_closes_no_connection_of_its_earlier_process(
    pair: Pair,
) -> None:
    await pair.connect()
    pair.kill_server(silently=True)
    pair.b = pair.start("b")
    pair.kill_server(silently=False)
    await asyncio.sleep(1)
    assert pair.closed == []


@with_pair()
async def test_a_reset_tells_both_ends_and_loses_what_was_under_way(pair: Pair) -> None:
    end = await pair.connect()
    end.send([b"lost"])
    pair.network.reset("b", "w")
    await asyncio.sleep(1)
    assert sorted(pair.closed) == ["b", "w"]
    assert pair.received == []


@with_pair()
async def test_a_paused_process_gets_everything_when_it_goes_on(pair: Pair) -> None:
    end = await pair.connect()
    pair.loop.pause(pair.b)
    end.send([b"1"])
    await asyncio.sleep(1)
    end.send([b"2"])
    await asyncio.sleep(1)
    assert pair.received == []
    pair.loop.resume(pair.b)
    await asyncio.sleep(1)
    assert flat(pair.received) == [b"1", b"2"]


@with_pair(chosen={"lose w>b 1": 1, "copy w>b 2": 20, "swap w>b 3": 5})
async def test_messages_get_lost_copied_and_overtaken_by_decision(pair: Pair) -> None:
    end = await pair.connect()
    for frame in NUMBERS[:4]:
        end.send([frame])
        await asyncio.sleep(0.001)
    await asyncio.sleep(1)
    assert flat(pair.received) == [b"1", b"3", b"2", b"1"]


@with_pair()
async def test_the_next_message_can_be_chosen_from_outside(pair: Pair) -> None:
    one, other = await pair.connect(), await pair.connect()
    possible = pair.choose_last()
    for frame in (b"1", b"2"):
        one.send([frame])
        other.send([b"other " + frame])
    await asyncio.sleep(10 * LATENCY_S)
    assert flat(pair.received) == [b"other 1", b"other 2", b"1", b"2"]
    assert possible == [["w>b 2", "w>b 3"], ["w>b 2", "w>b 5"], ["w>b 2"], ["w>b 4"]]


@with_pair()
async def test_each_message_that_opens_or_closes_a_connection_has_a_purpose(pair: Pair) -> None:
    purposes: list[Purpose] = []

    def choose(parcels: Sequence[Parcel]) -> int:
        purposes.append(parcels[0].purpose)
        return 0

    pair.choose(choose)
    end = await pair.connect()
    end.send([b"1"])
    end.close()
    await asyncio.sleep(10 * LATENCY_S)
    pair.kill_server(silently=False)
    with pytest.raises(ConnectionRefusedError):
        await pair.connect()
    opened = [Purpose.CONNECT, Purpose.ACCEPT, Purpose.FRAMES, Purpose.CLOSE]
    assert purposes == [*opened, Purpose.CONNECT, Purpose.REFUSE]


@with_pair(chosen={"delay w>b 1": 1000})
async def test_a_delay_has_no_effect_in_a_chosen_order(pair: Pair) -> None:
    end = await pair.connect()
    pair.choose(lambda parcels: 0)
    for frame in (b"1", b"2"):
        end.send([frame])
    await asyncio.sleep(10 * LATENCY_S)
    assert flat(pair.received) == [b"1", b"2"]
    ((_, _, sent_us, due_us), _) = pair.network.transit.parcels[-2:]
    assert due_us - sent_us == LATENCY_S * 1e6


@with_pair(chosen={"swap w>b 1": 1})
async def test_later_messages_can_be_chosen_before_one_that_is_swapped(pair: Pair) -> None:
    end = await pair.connect()
    possible = pair.choose_last()
    for frame in (b"1", b"2", b"3"):
        end.send([frame])
    await asyncio.sleep(10 * LATENCY_S)
    assert flat(pair.received) == [b"2", b"3", b"1"]
    assert possible == [["w>b 1", "w>b 2"], ["w>b 1", "w>b 3"], ["w>b 1"]]
