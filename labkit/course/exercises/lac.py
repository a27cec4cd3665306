"""Lesson 06: how far a writer has confirmed its adds, and how far a reader may read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.exercise import Refused, exercise
from labkit.course.exercises.generated import cluster as generated
from labkit.course.runs.cluster_trial import (
    ClusterTrial,
    client_with,
    counterexample_at,
    failures,
    must_hold,
    run_with,
)
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.reader import LedgerReader
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.entry import NO_ENTRY_ID
from labkit.system.model.errors import BKReadException
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.scenario.faults import Crash, Delay, Partition, SlowDisk
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, At, Moment, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Read, Recover, Write

Advance = Callable[[int, list[int], int], int]
Readable = Callable[[int, list[tuple[int, int]]], int]

STORM_COUNT = 12
_MAX_ENTRY_ID = 1000
"""A limit that is larger than any entry id in these runs, so that no run reads too far."""


# The writer: LastAddConfirmed


def advance(last_add_confirmed: int, acks: list[int], ack_quorum: int) -> int:
    """Return the new LastAddConfirmed, given how many acknowledgements each later entry has."""
    for count in acks:
        if count < ack_quorum:
            break
        last_add_confirmed += 1
    return last_add_confirmed


def _acknowledged(case: Arguments) -> str:
    last_add_confirmed, acks, _ = case
    counts = [f"entry {at}: {count}" for at, count in enumerate(acks, last_add_confirmed + 1)]
    return f"Acknowledgements: {', '.join(counts) or 'no entry is pending'}."


_IN_ORDER = (
    "LastAddConfirmed must not advance past an entry that fewer than Qa bookies have acknowledged:"
    " readers would rely on the entry, although it can still be lost."
)
_AS_FAR = (
    "LastAddConfirmed must advance as far as it can: otherwise entries that Qa bookies have"
    " acknowledged are never confirmed, and their writer waits forever."
)
_NEVER_BACK = "LastAddConfirmed must never decrease: readers may already have read up to it."
_OUT_OF_ORDER = {"AckQuorumIsReached": _IN_ORDER, "AcknowledgedIsDurable": _IN_ORDER}


def _advance_rule_of(case: Arguments, answer: int) -> str:
    if answer < case[0]:
        return _NEVER_BACK
    return _IN_ORDER if answer > advance(*case) else _AS_FAR


@exercise(
    "lac.advance",
    hints=(
        "acks[0] belongs to the entry right after LastAddConfirmed. When can that entry be"
        " confirmed? If it cannot, what about the next one?",
        "Go through the list from the start. Each entry with at least ack_quorum acknowledgements"
        " advances LastAddConfirmed by one. What does the first entry with fewer do?",
        "for count in acks: stop if count < ack_quorum, otherwise add one. Return the result.",
    ),
    like=advance,
    cases=Cases(generated.acknowledgements, advance, _advance_rule_of, explain=_acknowledged),
)
def advanced(learner: Advance) -> str:
    """LastAddConfirmed advances past each entry with Qa acknowledgements, but not past a gap."""

    def judged(last_add_confirmed: int, acks: list[int], ack_quorum: int) -> int:
        answer = learner(last_add_confirmed, acks, ack_quorum)
        if answer < last_add_confirmed:
            raise Refused(_NEVER_BACK)
        return answer

    trial = ClusterTrial(judged)
    client = client_with(writer_class=_advancing(trial))
    traces = must_hold(
        _writers(), lambda scenario: trial.run(scenario, client=client), _OUT_OF_ORDER
    )
    for trace in traces[:2]:
        ended = [event for event in trace.events if event.kind == "ledger.closed"]
        if not ended or ended[0].node != "w":
            acked = [e for e in trace.events if e.kind == "add.acked" and e.node == "w"]
            last = acked[-1].seq
            reason = "The writer is still waiting, although no further acknowledgement is due."
            raise Refused(_AS_FAR, counterexample_at(trace, last, reason))
    return (
        f"The writer confirmed its entries in order in {len(traces)} runs, {STORM_COUNT} of them"
        " during storms of faults."
    )


def _advancing(decide: Advance) -> type[LedgerWriter]:
    class Advancing(LedgerWriter):
        def complete_adds(self) -> None:
            if self.ensemble_change.is_running:
                return
            acks = [pending.acked.bit_count() for pending in self.pending]
            last = decide(self.last_add_confirmed, acks, self.metadata.ack_quorum)
            while self.pending and self.pending[0].entry_id <= last:
                pending = self.pending.popleft()
                self.last_add_confirmed = pending.entry_id
                self.length_confirmed = pending.length
                if not pending.future.done():
                    pending.future.set_result(pending.entry_id)
                self.recorder.record("lac.advanced", self.ledger_id, pending.entry_id)

    return Advancing


def _writers() -> Iterator[Scenario]:
    """Yield two runs in which a slow bookie changes the order of the acknowledgements, followed by
    storms.
    """
    slow = SlowDisk("b1", 20)
    yield Scenario(Cluster(3), (Write(0, 6, 3, 2, 2),), (slow,), limit_s=5)
    yield Scenario(Cluster(3), (Write(0, 6, 3, 3, 2),), (slow,), limit_s=5)
    for seed in range(STORM_COUNT):
        sizes = (5, 2, 2) if seed % 2 else (4, 3, 2)
        steps = Write(0, 12, *sizes), Recover(when=On("lac.advanced", nth=6))
        yield storm(Scenario(Cluster(6), steps, limit_s=20), seed, fault_count=3)


# The reader


def readable(known: int, newest: list[tuple[int, int]]) -> int:
    """Return the last entry that a reader may read.

    known: the LastAddConfirmed that the reader knew before. newest: for each bookie that
    responded, the id of its newest entry and the LastAddConfirmed in that entry.
    """
    return max([known, *(last_add_confirmed for _, last_add_confirmed in newest)])


_BEYOND = (
    "A reader must not read an unconfirmed entry: too few bookies may have it, and recovery may"
    " drop it."
)
_INVENTED = (
    "A reader may only read up to a LastAddConfirmed that the writer has announced. The writer"
    " never announced this one: the reader did not know it before, and no entry contains it."
)
_MISSED = (
    "A LastAddConfirmed reported by any bookie is valid for all of them, so the highest one counts."
    " With a lower one, the reader misses entries that have been confirmed."
)


def _readable_rule_of(case: Arguments, answer: int) -> str:
    known, newest = case
    if answer < known:
        return _NEVER_BACK
    if answer < readable(known, newest):
        return _MISSED
    return _BEYOND if answer in dict(newest) else _INVENTED


@exercise(
    "lac.readable",
    hints=(
        "That a bookie has an entry proves nothing. What else does the entry contain, and who put"
        " it there?",
        "The writer packs LastAddConfirmed into each entry. A bookie that missed the newest entries"
        " reports an old one, but no bookie reports one that is too high.",
        "The largest of all second numbers, but never less than `known`.",
    ),
    like=readable,
    cases=Cases(generated.newest_entries, readable, _readable_rule_of),
)
def read(learner: Readable) -> str:
    """A reader uses the highest LastAddConfirmed that it knows or that a bookie reports."""

    def judged(known: int, newest: list[tuple[int, int]]) -> int:
        answer = learner(known, list(newest))
        if not NO_ENTRY_ID <= answer < _MAX_ENTRY_ID:
            raise Refused(_readable_rule_of((known, newest), answer))
        return answer

    trial = ClusterTrial(judged)
    client = client_with(reader_class=_reading(trial))
    traces = must_hold(
        _readers(),
        lambda scenario: trial.run(scenario, client=client),
        {"NothingBeyondLacIsRead": _BEYOND, "ReadersLearnWhatIsConfirmed": _MISSED},
    )
    return (
        f"In {len(traces)} runs, readers read no entry that could still be lost, and missed none"
        " that bookies reported as confirmed."
    )


def _reading(decide: Readable) -> type[LedgerReader]:
    class Reading(LedgerReader):
        async def read_last_add_confirmed(self) -> int:
            if not await self.check_closed():
                entries = await self.bookie_reads.last_entries(self.metadata)
                newest = [(entry.entry_id, entry.last_add_confirmed) for entry in entries]
                self.last_add_confirmed = decide(self.last_add_confirmed, newest)
                recorder = self.bookie_reads.context.recorder
                recorder.record("lac.read", self.ledger_id, self.last_add_confirmed)
            return self.last_add_confirmed

    return Reading


def _readers() -> Iterator[Scenario]:
    """Yield a run in which b0 misses all entries after the third one, a run in which b1 alone
    receives the last entries and then dies, and storms.
    """
    late = [Delay(name, "r", 10) for name in ("b1", "b2")]
    behind = Partition(("w",), ("b0",), when=On("add.pushed", entry=3))
    write = Write(0, 8, every_ms=1, close=False)
    yield Scenario(Cluster(3), (write, Read(when=At(60))), (*late, behind), limit_s=20)
    alone = Partition(("w",), ("b0", "b2"), when=On("add.pushed", entry=5))
    ends = Crash("w", when=At(40)), Crash("b1", when=At(60))
    steps = write, Read(polls=6, when=At(10)), Recover(client="s", when=At(80))
    yield Scenario(Cluster(3), steps, (alone, *ends), limit_s=20)
    for seed in range(STORM_COUNT):
        write = Write(0, 12, *((5, 3, 2) if seed % 2 else (3, 3, 2)), every_ms=1)
        scenario = Scenario(Cluster(6), (write, Read(polls=8, poll_ms=2)), limit_s=20)
        yield storm(scenario, seed, fault_count=2)


# Functions for the runs in the lesson itself


@dataclass(frozen=True, slots=True, repr=False)
class Tail(Value):
    """Read the first entries of a ledger one by one, each as soon as it has been confirmed."""

    ledger: int = 0
    entries: int = 5
    timeout_s: float = 1.0
    client: str = "r"
    when: Moment = START

    def __str__(self) -> str:
        return f"tail ledger {self.ledger}"

    async def run(self, node: ClientNode) -> None:
        """Raises `LabkitError` if the ledger cannot be opened or an entry does not arrive."""
        ledger_id = await node.ledgers.id_of(self.ledger)
        reader = await node.client.open_ledger_no_recovery(ledger_id)
        for entry_id in range(self.entries):
            _, entry = await reader.read_last_add_confirmed_and_entry(entry_id, self.timeout_s)
            if entry is None:
                raise BKReadException(f"entry {entry_id} was not confirmed within the timeout")


def read_delays_ms(trace: Trace, writer: str = "w", reader: str = "r") -> dict[int, float]:
    """For each entry that `reader` has read, return the time between the push by `writer` and the
    read.

    Events of other nodes are ignored, because the epilogue pushes entries again when it recovers
    the ledger after the run.
    """
    pushed = {
        e.entry: e.time_us for e in trace.events if (e.node, e.kind) == (writer, "add.pushed")
    }
    return {
        e.entry: (e.time_us - pushed[e.entry]) / 1000
        for e in trace.events
        if (e.node, e.kind) == (reader, "read.done") and e.entry in pushed
    }


def tailing_delays(write: Write, explicit_lac_interval_ms: int) -> str:
    """Follow a writer, and return for each entry a line that says how long after its push it was
    read.

    An interval of 0 disables explicit LACs. Failed steps also have a line.
    """
    config = ClientConfig(explicit_lac_interval_ms=explicit_lac_interval_ms)
    scenario = Scenario(Cluster(3), (write, Tail(0, write.entries)))
    followed = run_with(scenario, client=partial(BookKeeper, config=config))
    delays = (
        f"entry {entry_id} was read {delay_ms:5.1f} ms after it was pushed"
        for entry_id, delay_ms in read_delays_ms(followed).items()
    )
    return "\n".join(f"   {line}" for line in (*delays, *failures(followed)))
