"""Step 3: the memtable."""

from dataclasses import dataclass
from functools import partial
from random import Random

from labkit.course.checking.exercise import Refused
from labkit.course.checking.generated_cases import Draw
from labkit.course.workshop.bookie.common_trials import crashes, orders, storms
from labkit.course.workshop.bookie.store import LearnersMemtable, bound
from labkit.course.workshop.generated_cases import Problem, try_generated
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.step import ContractLine, Cost, FirstTest, Step
from labkit.system.storage.memtable import Memtable

_CASES = 300
_LEDGERS, _ENTRIES = 4, 500

Puts = tuple[tuple[int, int, bytes], ...]


@dataclass(frozen=True, slots=True)
class PutsCase:
    """The entries put into the memtable, and a description of the wrong result."""

    puts: Puts
    problem: str

    def __str__(self) -> str:
        lines = [f"memtable.put({ledger}, {entry}, {data!r})" for ledger, entry, data in self.puts]
        return "\n".join(("memtable = Memtable()", *lines, self.problem))


def _first_test(learner: Learner) -> None:
    yours = learner.make("Memtable")
    yours.call("put", object, 5, 0, b"a")
    if (found := yours.call("get", bytes | None, 5, 0)) != b"a":
        raise Refused(f"{_FOUND} `get(5, 0)` must return b'a'; yours returned {found!r}.")


def _puts(draw: Draw) -> Puts:
    count = draw.number(1, 10)
    return tuple(
        (draw.id() if draw.chance(30) else draw.number(5, 6), draw.id(), draw.data(3))
        for _ in range(count)
    )


def results_equal_labkits(learner: Learner) -> str:
    """Check that every method returns the same result as labkit's, no matter in which order entries
    are put.
    """
    try_generated(_puts, _CASES, partial(_problem, learner), PutsCase)
    return f"Right for {_CASES} drawn sequences of entries."


def _problem(learner: Learner, puts: Puts) -> Problem | None:
    yours, ours = learner.make("Memtable"), Memtable()
    for ledger_id, entry_id, data in puts:
        yours.call("put", object, ledger_id, entry_id, data)
        ours.put(ledger_id, entry_id, data)
        right = ours.get(ledger_id, entry_id)
        calls = (
            (
                "get",
                bytes | None,
                (ledger_id, entry_id),
                right,
                _FIRST if right != data else _FOUND,
            ),
            (
                *("get", bytes | None, (ledger_id, entry_id + 1)),
                *(ours.get(ledger_id, entry_id + 1), _ABSENT),
            ),
            ("last_entry_id", int, (ledger_id,), ours.last_entry_id(ledger_id), _LAST),
            ("last_entry_id", int, (ledger_id + 1,), ours.last_entry_id(ledger_id + 1), _LAST),
            ("size_bytes", int, (), ours.size_bytes, _SIZE),
            ("entries", list[tuple[int, int, bytes]], (), list(ours), _SORTED),
        )
        for method, returns, arguments, expected, rule in calls:
            result = yours.call(method, returns, *arguments)
            if result != expected:
                call = f"memtable.{method}({', '.join(map(str, arguments))})"
                return rule, f"{call} must return {expected!r}; yours returned {result!r}"
    return None


_FOUND = "From the moment it is put, an entry can be read."
_FIRST = "The first copy of an entry stays; later copies are dropped, as in a replay."
_ABSENT = "For an entry that was not put, `get` returns None."
_LAST = "A ledger's last entry is the one with the highest id, not the one that was put last."
_SIZE = "The size is the number of bytes kept, counting each entry once."
_SORTED = (
    "Entries are sorted by ledger, then by entry, so that a reader finds a ledger's entries"
    " together."
)


class CountedId(int):
    """An id that counts how often it is compared with others."""

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
    """Return the number of id comparisons per entry when entries are put, queried and flushed.

    The ids of a ledger arrive almost in order, as from a client with several adds in flight. The
    cost limit allows a single sorted list of all entries with `bisect`, which needs 4.5 times as
    many comparisons as labkit's memtable.
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
    number=3,
    name="the memtable",
    parts=("Memtable",),
    contract=(
        ContractLine(_FOUND, broken_by=("lost", "refused")),
        ContractLine(_ABSENT, broken_by=("invented",)),
        ContractLine(_FIRST),
        ContractLine(_LAST),
        ContractLine(_SIZE),
        ContractLine(_SORTED),
    ),
    write="the class Memtable in about 25 lines.",
    hints=(
        "Use a dictionary of ledgers, each a dictionary of entries. Nothing has to be sorted before"
        " a flush asks for it.",
        "`last_entry_id` must not search, so `put` keeps each ledger's highest id in a dictionary"
        " of its own.",
        "If the entry already exists, `put` returns before it changes anything: neither the bytes,"
        " nor the size, nor the highest id.",
    ),
    first_test=FirstTest(
        "    memtable = Memtable()\n"
        '    memtable.put(5, 0, b"a")\n'
        '    assert memtable.get(5, 0) == b"a"\n',
        _first_test,
    ),
    trials=(results_equal_labkits,),
    slow_trials=(crashes, orders, storms),
    costs=(Cost("comparisons of ids per entry", 6.0, _comparisons),),
    challenges=(
        "Release an entry's bytes as soon as its location is known. labkit's memtable does, so a"
        " flush of 64 MiB does not need another 64 MiB.",
        "How much memory do a million entries of 20 bytes take? Halve it.",
    ),
)
