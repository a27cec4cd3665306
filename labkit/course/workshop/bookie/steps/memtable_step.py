"""Step 2: the memtable."""

from dataclasses import dataclass
from functools import partial
from random import Random

from labkit.course.checking.draw import Draw
from labkit.course.checking.exercise import Refused
from labkit.course.workshop.bookie.inside import crashes, orders, storms
from labkit.course.workshop.bookie.store import LearnersMemtable, bound
from labkit.course.workshop.generated_cases import Problem, try_drawn
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.step import Figure, RedTest, Step
from labkit.system.storage.memtable import Memtable

_CASES = 300
_LEDGERS, _ENTRIES = 4, 500

Puts = tuple[tuple[int, int, bytes], ...]


@dataclass(frozen=True, slots=True)
class PutsCase:
    """Entries that were put, and the answer that differs."""

    puts: Puts
    problem: str

    def __str__(self) -> str:
        lines = [f"memtable.put({ledger}, {entry}, {data!r})" for ledger, entry, data in self.puts]
        return "\n".join(("memtable = Memtable()", *lines, self.problem))


def _red(learner: Learner) -> None:
    yours = learner.make("Memtable")
    yours.call("put", object, 5, 0, b"a")
    if (found := yours.call("get", bytes | None, 5, 0)) != b"a":
        raise Refused(f"What was put is there to get; yours returned {found!r}.")


def _puts(draw: Draw) -> Puts:
    count = draw.number(1, 6)
    return tuple(
        (draw.id() if draw.chance(30) else draw.number(5, 6), draw.id(), draw.data(3))
        for _ in range(count)
    )


def answers_are_right(learner: Learner) -> str:
    """Every question has labkit's own answer, whatever was put in whatever order."""
    try_drawn(_puts, _CASES, partial(_problem, learner), PutsCase)
    return f"Right for {_CASES} drawn sequences of entries."


def _problem(learner: Learner, puts: Puts) -> Problem | None:
    yours, ours = learner.make("Memtable"), Memtable()
    for ledger_id, entry_id, data in puts:
        yours.call("put", object, ledger_id, entry_id, data)
        ours.put(ledger_id, entry_id, data)
        questions = (
            ("get", bytes | None, (ledger_id, entry_id), ours.get(ledger_id, entry_id), _FIRST),
            ("get", bytes | None, (ledger_id, entry_id + 1), ours.get(ledger_id, entry_id + 1), ""),
            ("last_entry_id", int, (ledger_id,), ours.last_entry_id(ledger_id), _LAST),
            ("last_entry_id", int, (ledger_id + 1,), ours.last_entry_id(ledger_id + 1), _LAST),
            ("size_bytes", int, (), ours.size_bytes, _SIZE),
            ("entries", list[tuple[int, int, bytes]], (), list(ours), _SORTED),
        )
        for method, returns, arguments, right, rule in questions:
            said = yours.call(method, returns, *arguments)
            if said != right:
                call = f"memtable.{method}({', '.join(map(str, arguments))})"
                return rule or _ABSENT, f"{call} must return {right!r}; yours returned {said!r}"
    return None


_FIRST = "The first copy of an entry stays: later ones are dropped, as they are at a replay."
_ABSENT = "An entry that was not put is not here."
_LAST = "A ledger's last entry is the one with the highest id, not the one that came last."
_SIZE = "The size counts the bytes that are kept, each entry once."
_SORTED = "Entries come by ledger, and in a ledger by entry: so a reader finds them in one piece."


class CountedId(int):
    """An id that counts how often ids are compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        CountedId.compared += 1
        return int(self) < int(other)

    def __gt__(self, other: int) -> bool:
        CountedId.compared += 1
        return int(self) > int(other)

    def __eq__(self, other: object) -> bool:
        CountedId.compared += 1
        return int(self) == other

    def __hash__(self) -> int:
        return hash(int(self))


def _comparisons(learner: Learner | None) -> float:
    """Comparisons for each entry that is put, asked for and flushed.

    The ids of a ledger arrive nearly in order, as from a client with adds under way.
    """
    memtable = Memtable() if learner is None else bound(LearnersMemtable, learner)()
    random, CountedId.compared = Random(1), 0
    for number in range(_ENTRIES):
        for ledger_id in range(_LEDGERS):
            entry_id = CountedId(number ^ random.randrange(2))
            memtable.put(CountedId(ledger_id), entry_id, b"")
            memtable.last_entry_id(CountedId(ledger_id))
    assert list(memtable)
    return CountedId.compared / (_LEDGERS * _ENTRIES)


STEP = Step(
    number=2,
    name="the memtable",
    parts=("Memtable",),
    invariants=(
        "From the moment of its add on, an entry can be read.",
        "The first copy of an entry stays; a later one changes nothing.",
        "A flush gets the entries by ledger, and in a ledger by entry, in any order of arrival.",
    ),
    write="the class Memtable, about 25 lines.",
    red=RedTest(
        "    memtable = Memtable()\n"
        '    memtable.put(5, 0, b"a")\n'
        '    assert memtable.get(5, 0) == b"a"\n',
        _red,
    ),
    trials=(answers_are_right,),
    worlds=(crashes, orders, storms),
    figures=(Figure("comparisons of ids for each entry", 4.0, _comparisons),),
    challenges=(
        "Give up an entry's bytes as soon as its location is known: labkit's memtable does, so a"
        " flush of 64 MiB needs no second 64 MiB.",
        "How much memory does a million entries of 20 bytes take? Make it half of that.",
    ),
)
