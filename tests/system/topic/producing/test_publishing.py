"""Tests for publishing that `publishing.txt` cannot show: producers that come and go, and names."""

import asyncio

import pytest

from labkit.system.model.errors import BKLedgerFencedException
from labkit.system.topic.producing.deduplication import Deduplication
from labkit.system.topic.producing.publishing import ProducerNames, TopicPublisher
from labkit.system.trace.recorder import Recorder
from tests.system.topic.ledgers import PlayedLedger
from tests.worlds.sim.metadata_world import MetadataWorld, in_metadata_world


@pytest.mark.parametrize("is_dropped", [False, True])
async def test_deduplication_learns_when_a_producer_connects_and_leaves(
    monkeypatch: pytest.MonkeyPatch, is_dropped: bool
) -> None:
    ledger, recorder, told = PlayedLedger().real, Recorder("broker", lambda: 0), list[str]()
    marks = await Deduplication.open(ledger, recorder)
    monkeypatch.setattr(marks, "producer_attached", lambda name: told.append(f"{name} connected"))
    monkeypatch.setattr(marks, "producer_detached", lambda name: told.append(f"{name} left"))
    publisher = TopicPublisher(ledger, marks, recorder, lambda _: None)
    producer = publisher.attach("p", lambda _: None, lambda: None)
    if is_dropped:
        publisher.fail(BKLedgerFencedException("fenced"))
    else:
        publisher.remove(producer)
    assert told == ["p connected", "p left"]


@in_metadata_world()
async def test_names_for_producers_without_one_never_come_again(world: MetadataWorld) -> None:
    names: list[str] = []
    for node in ("a", "b"):
        maker = ProducerNames(await world.session(node))
        names += [await maker.new(), await maker.new()]
    world.crash("a")
    names.append(await ProducerNames(await world.session("a")).new())
    assert names == [f"labkit-{name}" for name in ("0-0", "0-1", "1-0", "1-1", "2-0")]


@in_metadata_world()
async def test_the_node_of_a_brokers_names_goes_with_its_session(world: MetadataWorld) -> None:
    b = await world.session("b")
    assert (await ProducerNames(await world.session("a")).new()).endswith("-0")
    folder = "/counters/producer-name"
    assert len(await b.children(folder)) == 1
    world.crash("a")
    await asyncio.sleep(world.session_timeout_s + 1)
    assert await b.children(folder) == []
