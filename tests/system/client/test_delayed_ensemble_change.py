"""Test how a writer with `delay_ensemble_change` reacts when bookies fail."""

from labkit.system.check import broken, check_all
from labkit.system.client.context import ClientConfig
from labkit.system.model.wire import Code
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import PowerCut
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Write
from tests.system.client.scripted_bookies import Script, pushed
from tests.until import until

DELAYED = ClientConfig(request_timeout_s=60.0, delay_ensemble_change=True)


async def test_delayed_change_tolerates_failures_while_a_quorum_is_available() -> None:
    script = Script(3, 3, 2, spares=2, config=DELAYED)
    b1, b2, b3, b4, b5 = script.bookies
    writer, adds = await pushed(script, 2)
    b3.refuse(0, Code.IO_ERROR)
    for bookie in (b1, b2):
        bookie.ack(0)
    assert await adds[0] == 0
    b3.refuse(1, Code.IO_ERROR)
    b2.refuse(1, Code.IO_ERROR)
    await until(lambda: b4.adds == b5.adds == [1])
    assert await script.segments() == [(0, "b1 b2 b3"), (1, "b1 b4 b5")]
    b4.ack(1)
    b1.ack(1)
    assert await adds[1] == 1
    assert writer.last_add_confirmed == 1


async def test_failures_of_replaced_bookies_are_not_counted_against_the_new_ones() -> None:
    script = Script(3, 3, 2, spares=3, config=DELAYED)
    b1, b2, b3, b4, b5, b6 = script.bookies
    _, adds = await pushed(script, 1)
    b3.refuse(0, Code.IO_ERROR)
    b2.refuse(0, Code.IO_ERROR)
    await until(lambda: b4.adds == b5.adds == [0])
    b5.refuse(0, Code.IO_ERROR)
    b1.ack(0)
    b4.ack(0)
    assert await adds[0] == 0
    assert await script.segments() == [(0, "b1 b4 b5")]
    assert b6.adds == []


async def test_a_bookie_that_fails_after_it_was_replaced_does_no_harm_to_its_replacement() -> None:
    """While the change replaces another failed bookie, adds still go to the replaced bookies."""
    script = Script(3, 3, 2, spares=5, config=DELAYED)
    b1, b2, b3, b4, b5, b6, *_ = script.bookies
    writer, _ = await pushed(script, 1)

    async def another_fails() -> None:
        b1.refuse(0, Code.IO_ERROR)
        script.store.before_next_set = replaced_ones_fail_again

    async def replaced_ones_fail_again() -> None:
        writer.add(b"meanwhile")
        await script.until_asked(2, 1, 2)
        for bookie in (b2, b3):
            bookie.refuse(1, Code.IO_ERROR)

    script.store.before_next_set = another_fails
    for bookie in (b2, b3):
        bookie.refuse(0, Code.IO_ERROR)
    await until(lambda: b4.adds == b5.adds == b6.adds == [0, 1])
    assert await script.segments() == [(0, "b6 b4 b5")]


async def test_bookie_that_is_read_only_is_replaced_at_once() -> None:
    script = Script(3, 3, 2, spares=1, config=DELAYED)
    await pushed(script, 1)
    script.bookies[0].refuse(0, Code.READ_ONLY)
    await until(lambda: script.bookies[3].adds == [0])
    assert await script.segments() == [(0, "b4 b2 b3")]


def test_each_bookie_of_the_ensemble_after_a_long_change_was_sent_what_was_pending() -> None:
    """All bookies lose power, and a response of the metadata store is late, so the ensemble change
    takes until the replaced bookies are running again.
    """
    outage = PowerCut(down_ms=18.0, when=On("journal.appended"))
    write = Write(entries=3, every_ms=20.0, delay_ensemble_change=True)
    late = {"delay w>zk 14": 100.0}
    trace = run(Scenario(Cluster(5), (write,), (outage,), decisions=late, limit_s=30.0))
    assert not broken(check_all(trace))
    assert [event.entry for event in trace.events if event.kind == "lac.advanced"] == [0, 1, 2]
