"""Test when a list of bookies can be trusted, using a scripted metadata store in virtual time."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from labkit.system.autorecovery.metadata_silence import MetadataSilence, SettledBookies
from labkit.system.metadata.location import MetadataLocation
from labkit.system.metadata.store import MetadataStore
from labkit.system.metadata.watched_nodes import WatchedNodes
from tests.virtual_time import in_virtual_time


class Store:
    """A metadata store that stops responding when the test calls `falls_silent`."""

    def __init__(self, session_timeout_s: float) -> None:
        self.session_timeout_s = session_timeout_s
        self.falls_silent: Callable[[], None] = lambda: None

    def on_silence(self, action: Callable[[], None]) -> None:
        self.falls_silent = action


class Nodes:
    """The lists of bookies. A read takes `lasts_s`; the time of each read is recorded."""

    def __init__(self, lasts_s: float = 0.0) -> None:
        self.location = MetadataLocation("any")
        self.change_count = 0
        self.lasts_s = lasts_s
        self.times: list[float] = []

    async def children(self, path: str) -> list[str]:
        if path == self.location.read_only:
            return []
        self.times.append(round(now_s(), 6))
        await asyncio.sleep(self.lasts_s)
        return [f"b{len(self.times)}"]


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def until_s(time_s: float) -> None:
    await asyncio.sleep(time_s - now_s())


async def begun(session_timeout_s: float = 4.0) -> tuple[Store, MetadataSilence]:
    """Begin a session at 5 s."""
    await until_s(5)
    store = Store(session_timeout_s)
    return store, MetadataSilence(cast(MetadataStore, store))


def settled(silence: MetadataSilence, nodes: Nodes) -> SettledBookies:
    return SettledBookies(cast(WatchedNodes, nodes), silence)


@pytest.mark.parametrize(
    ("session_timeout_s", "grace_s"), [(0.5, 10), (4, 10), (5, 10), (5.5, 11), (30, 60)]
)
@in_virtual_time
async def test_the_grace_period_is_two_session_timeouts_but_at_least_ten_seconds(
    session_timeout_s: float, grace_s: float
) -> None:
    store, silence = await begun(session_timeout_s)
    assert silence.grace_s == grace_s
    store.falls_silent()
    assert silence.settled_at == 5 + grace_s


@in_virtual_time
async def test_a_new_session_is_settled() -> None:
    _, silence = await begun()
    await until_s(9)
    assert silence.is_settled
    assert silence.session_began_at == silence.responding_since == silence.settled_at == 5
    assert silence.count == 0
    await silence.wait_until_settled()
    assert now_s() == 9


@in_virtual_time
async def test_each_silence_starts_a_new_grace_period() -> None:
    store, silence = await begun()
    for time_s in (20, 27):
        await until_s(time_s)
        store.falls_silent()
        assert not silence.is_settled
        assert silence.responding_since == time_s
    assert (silence.count, silence.session_began_at) == (2, 5)
    await until_s(36.999)
    assert not silence.is_settled
    await until_s(37)
    assert silence.is_settled


@in_virtual_time
async def test_a_grace_period_can_start_without_a_silence() -> None:
    _, silence = await begun()
    await until_s(20)
    silence.begin_grace_period()
    assert silence.settled_at == 30
    assert (silence.count, silence.responding_since) == (0, 5)


@in_virtual_time
async def test_a_wait_lasts_until_the_end_of_the_last_grace_period() -> None:
    store, silence = await begun()
    store.falls_silent()
    waiting = asyncio.ensure_future(silence.wait_until_settled())
    await until_s(12)
    store.falls_silent()
    await waiting
    assert now_s() == 22


@in_virtual_time
async def test_a_list_that_was_read_during_a_silence_is_read_again() -> None:
    store, silence = await begun()
    nodes = Nodes(lasts_s=3)
    bookies = settled(silence, nodes)
    asking = asyncio.ensure_future(bookies.now())
    await until_s(6)
    store.falls_silent()
    assert (await asking).writable == ("b2",)
    assert nodes.times == [5, 16]
    assert now_s() == 19
    assert bookies.silence_count == 1
