"""A chaos run, which injects faults while clients work, and then checks every ledger and the
trace.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from labkit.system.check import EPILOGUE, Verdict, broken, check_all
from labkit.system.trace.events import Event
from tests.chaos import network
from tests.chaos.book import Book
from tests.chaos.cluster import ChaosCluster
from tests.chaos.epilogue import missing, open_all, until_repaired
from tests.chaos.load import Load
from tests.chaos.schedule import CUT, Fault
from tests.until import until_true

WRITERS, READERS, RECOVERERS = 3, 2, 2
BACK_S = 60.0
REPAIR_S = 90.0


@dataclass(slots=True)
class Outcome:
    """The result of a run. `repaired_s` is the time that it took to restore all copies
    afterwards.
    """

    book: Book
    faults: list[Fault] = field(default_factory=list)
    events: Sequence[Event] = ()
    verdicts: Sequence[Verdict] = ()
    repaired_s: float = 0.0

    @property
    def wrong(self) -> list[str]:
        """Return a description of every broken promise."""
        return [*self.book.broken, *(repr(verdict) for verdict in broken(self.verdicts))]


async def run_chaos(
    seed: int, schedule: Sequence[Fault], tell: Callable[[str, Outcome], None]
) -> Outcome:
    """Run the whole schedule, calling `tell` with the current phase from time to time."""
    networks = any(fault.kind == CUT for fault in schedule)
    outcome = Outcome(Book())
    if networks:
        network.open_up()
    cluster = ChaosCluster(networks=networks)
    async with cluster:
        await _work(cluster, seed, schedule, outcome, tell)
        tell("reading every copy", outcome)
        await _look_everything_up(cluster, seed, outcome, tell)
    outcome.events = cluster.trace.events
    deaths = sum(event.kind == "node.killed" for event in outcome.events)
    if deaths != cluster.kill_count:
        outcome.book.wrong(
            f"bookies ended {deaths} times, and {cluster.kill_count} times they were killed"
        )
    tell("judging the trace", outcome)
    outcome.verdicts = await asyncio.to_thread(check_all, outcome.events)
    return outcome


async def _work(
    cluster: ChaosCluster,
    seed: int,
    schedule: Sequence[Fault],
    outcome: Outcome,
    tell: Callable[[str, Outcome], None],
) -> None:
    load = Load(outcome.book, seed)
    roles = (
        ("writer", WRITERS, load.write),
        ("reader", READERS, load.read),
        ("recoverer", RECOVERERS, load.recover),
        ("deleter", 1, load.delete),
        ("late-writer", 1, load.come_back),
    )
    async with asyncio.TaskGroup() as clients:
        for role, count, work in roles:
            for number in range(1, count + 1):
                name = f"{role}-{number}"
                clients.create_task(work(await cluster.connect(name), name))
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as faults:
            for fault in schedule:
                await asyncio.sleep(began + fault.at_s - loop.time())
                faults.create_task(cluster.suffer(fault))
                outcome.faults.append(fault)
                tell("chaos", outcome)
        tell("the last clients end", outcome)
        load.stop()


async def _look_everything_up(
    cluster: ChaosCluster, seed: int, outcome: Outcome, tell: Callable[[str, Outcome], None]
) -> None:
    looker = await cluster.connect("looker")

    async def all_are_back() -> bool:
        return await looker.writable_bookies() == cluster.bookie_names

    await until_true(all_are_back, BACK_S)
    tell("opening every ledger", outcome)
    load = Load(outcome.book, seed)
    await open_all(looker, outcome.book, load)
    tell("waiting for every copy", outcome)
    outcome.repaired_s = await until_repaired(looker, outcome.book, REPAIR_S)
    client = await cluster.connect(EPILOGUE)
    client.recorder.record("epilogue.started")
    tell("reading every copy", outcome)
    for ledger_id in outcome.book.kept:
        await client.open_ledger(ledger_id)
        for word in await missing(client, ledger_id):
            outcome.book.wrong(f"ledger {ledger_id} is short of copies: {word}")
    await cluster.settled()
