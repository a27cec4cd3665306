"""Lesson 06: how far a writer has confirmed, and how far a reader may read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.exercise import Refused, exercise
from labkit.course.exercises.generated import cluster as drawn
from labkit.course.runs.cluster_trial import Guest, client_with, found, must_hold
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
from labkit.worlds.sim.workload.steps import Read, Recover, Write

Advance = Callable[[int, list[int], int], int]
Readable = Callable[[int, list[tuple[int, int]]], int]

STORM_COUNT = 12
_FAR = 1000
"""No run here has that many entries, and none must read them all."""


# The writer: LastAddConfirmed


def advance(last_add_confirmed: int, acks: list[int], ack_quorum: int) -> int:
    """LastAddConfirmed, given how many bookies have acknowledged each of the entries after it."""
    for count in acks:
        if count < ack_quorum:
            break
        last_add_confirmed += 1
    return last_add_confirmed


def _acknowledged(case: Arguments) -> str:
    last_add_confirmed, acks, _ = case
    counts = [f"entry {at}: {count}" for at, count in enumerate(acks, last_add_confirmed + 1)]
    return f"Acknowledgements: {', '.join(counts) or 'no entry is under way'}."


_IN_ORDER = (
    "LastAddConfirmed must not pass an entry that fewer than Qa bookies have: readers would take"
    " the entry for stored, but it can still be lost."
)
_AS_FAR = (
    "LastAddConfirmed must go as far as it can: entries that Qa bookies have would wait for ever,"
    " and so would their writer."
)
_NEVER_BACK = "LastAddConfirmed never goes back: a reader has read up to there."
_OUT_OF_ORDER = {"AckQuorumIsReached": _IN_ORDER, "AcknowledgedIsDurable": _IN_ORDER}


def _advance_rule_of(case: Arguments, answer: int) -> str:
    if answer < case[0]:
        return _NEVER_BACK
    return _IN_ORDER if answer > advance(*case) else _AS_FAR


@exercise(
    "lac.advance",
    hints=(
        "acks[0] belongs to the entry right after LastAddConfirmed. When may that entry be"
        " confirmed? And the next one, if that one may not?",
        "Go through the list from its beginning. Each entry with ack_quorum acknowledgements or"
        " more moves LastAddConfirmed by one; what does the first entry with fewer do?",
        "for count in acks: if count < ack_quorum, stop; else add one. Return where you got to.",
    ),
    like=advance,
    cases=Cases(drawn.acknowledgements, advance, _advance_rule_of, why=_acknowledged),
)
def advanced(learner: Advance) -> str:
    """As far as Qa acknowledgements go without a gap."""

    def judged(last_add_confirmed: int, acks: list[int], ack_quorum: int) -> int:
        answer = learner(last_add_confirmed, acks, ack_quorum)
        if answer < last_add_confirmed:
            raise Refused(_NEVER_BACK)
        return answer

    guest = Guest(judged)
    client = client_with(writer_class=_advancing(guest))
    traces = must_hold(
        _writers(), lambda scenario: guest.run(scenario, client=client), _OUT_OF_ORDER
    )
    for trace in traces[:2]:
        ended = [event for event in trace.events if event.kind == "ledger.closed"]
        if not ended or ended[0].node != "w":
            acked = [e for e in trace.events if e.kind == "add.acked" and e.node == "w"]
            last = acked[-1].seq
            raise Refused(_AS_FAR, found(trace, last, "The writer waits, and no answer is due."))
    return f"Confirmed in order in {len(traces)} runs, {STORM_COUNT} of them in storms of faults."


def _advancing(decide: Advance) -> type[LedgerWriter]:
    class Advancing(LedgerWriter):
        """Asks the learner's function how far it has confirmed."""

        def confirm(self) -> None:
            if self.ensemble_change.task is not None:
                return
            acks = [pending.acked.bit_count() for pending in self.pending]
            last = decide(self.last_add_confirmed, acks, self.metadata.ack_quorum)
            while self.pending and self.pending[0].entry_id <= last:
                pending = self.pending.popleft()
                self.last_add_confirmed = pending.entry_id
                self.length_confirmed = pending.length
                if not pending.confirmed.done():
                    pending.confirmed.set_result(pending.entry_id)
                self.recorder.record("lac.advanced", self.ledger_id, pending.entry_id)

    return Advancing


def _writers() -> Iterator[Scenario]:
    """A slow bookie makes acknowledgements overtake each other; then storms."""
    slow = SlowDisk("b1", 20)
    yield Scenario(Cluster(3), (Write(0, 6, 3, 2, 2),), (slow,), limit_s=5)
    yield Scenario(Cluster(3), (Write(0, 6, 3, 3, 2),), (slow,), limit_s=5)
    for seed in range(STORM_COUNT):
        sizes = (5, 2, 2) if seed % 2 else (4, 3, 2)
        steps = Write(0, 12, *sizes), Recover(when=On("lac.advanced", nth=6))
        yield storm(Scenario(Cluster(6), steps, limit_s=20), seed, fault_count=3)


# The reader


def readable(known: int, newest: list[tuple[int, int]]) -> int:
    """Up to which entry a reader may read.

    `known`: what it knew before.  `newest`: of each bookie that answered, its newest entry's id and
    the LastAddConfirmed that came with that entry.
    """
    return max([known, *(last_add_confirmed for _, last_add_confirmed in newest)])


_BEYOND = (
    "A reader must not read beyond what is confirmed: an entry that a bookie has may be on too few"
    " of them, and recovery may drop it."
)
_INVENTED = (
    "A reader may read up to what the writer says is confirmed. Here the writer did not say it: it"
    " was neither known before nor did it come with an entry."
)
_MISSED = (
    "A LastAddConfirmed that one bookie knows is true for all: the highest one counts. With a lower"
    " one the reader misses entries that were confirmed long ago."
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
        "A bookie has an entry: that proves nothing. What else came with it, and who said so?",
        "The writer packs LastAddConfirmed into each entry. A bookie that missed the newest entries"
        " reports an old one, and no bookie reports one that is too high.",
        "The largest of all second numbers, but never less than `known`.",
    ),
    like=readable,
    cases=Cases(drawn.newest_entries, readable, _readable_rule_of),
)
def read(learner: Readable) -> str:
    """The highest LastAddConfirmed that any bookie reports, and never less than before."""

    def judged(known: int, newest: list[tuple[int, int]]) -> int:
        answer = learner(known, list(newest))
        if not NO_ENTRY_ID <= answer < _FAR:
            raise Refused(_readable_rule_of((known, newest), answer))
        return answer

    guest = Guest(judged)
    client = client_with(reader_class=_reading(guest))
    traces = must_hold(
        _readers(),
        lambda scenario: guest.run(scenario, client=client),
        {"NothingBeyondLacIsRead": _BEYOND, "ReadersLearnWhatIsConfirmed": _MISSED},
    )
    return (
        f"In {len(traces)} runs readers read nothing that could be lost, and missed nothing that"
        " bookies reported."
    )


def _reading(decide: Readable) -> type[LedgerReader]:
    class Reading(LedgerReader):
        """Asks the learner's function how far it may read."""

        async def read_last_add_confirmed(self) -> int:
            if not await self.check_closed():
                entries = await self.reads.last_entries(self.metadata)
                newest = [(entry.entry_id, entry.last_add_confirmed) for entry in entries]
                self.last_add_confirmed = decide(self.last_add_confirmed, newest)
                recorder = self.reads.context.recorder
                recorder.record("lac.read", self.ledger_id, self.last_add_confirmed)
            return self.last_add_confirmed

    return Reading


def _readers() -> Iterator[Scenario]:
    """b0 gets no entry after the third; b1 alone gets the last ones, and dies; then storms."""
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


# A step for the lesson


@dataclass(frozen=True, slots=True, repr=False)
class Tail(Value):
    """Wait for each of a ledger's first entries in turn, and read it as soon as it is confirmed."""

    ledger: int = 0
    entries: int = 5
    timeout_s: float = 1.0
    client: str = "r"
    when: Moment = START

    def __str__(self) -> str:
        return f"tail ledger {self.ledger}"

    async def run(self, node: ClientNode) -> None:
        """Do it.  Raises `LabkitError`."""
        ledger_id = await node.ledgers.id_of(self.ledger)
        reader = await node.client.open_ledger_no_recovery(ledger_id)
        for entry_id in range(self.entries):
            _, entry = await reader.read_last_add_confirmed_and_entry(entry_id, self.timeout_s)
            if entry is None:
                raise BKReadException(f"entry {entry_id} did not come")
