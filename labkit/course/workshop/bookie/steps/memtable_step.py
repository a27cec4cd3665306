"""Step 3: the memtable."""

from random import Random
from typing import Any

from labkit.course.checking.generated_cases import Draw
from labkit.course.checking.refused import Refused
from labkit.course.workshop.bookie.common_trials import LOSSES, crashes, orders, storms
from labkit.course.workshop.bookie.store import LearnersMemtable, bound
from labkit.course.workshop.generated_cases import try_generated
from labkit.course.workshop.learner import Learner, LearnersObject
from labkit.course.workshop.tracks import ContractLine, Cost, FirstTest, Step
from labkit.system.storage.memtable import Memtable

_CASES = 300
_LEDGERS, _ENTRIES = 4, 500

Puts = tuple[tuple[int, int, bytes], ...]


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


def _shown(puts: Puts) -> str:
    lines = [f"memtable.put({ledger}, {entry}, {data!r})" for ledger, entry, data in puts]
    return "\n".join(("memtable = Memtable()", *lines))


def results_equal_labkits(learner: Learner) -> str:
    """Check that every method returns the same result as labkit's memtable, regardless of the order
    in which entries are put into it.
    """
    try_generated(learner, _puts, _CASES, _test_puts, _shown)
    return f"Right for {_CASES} random sequences of entries."


def _test_puts(learner: Learner, puts: Puts) -> None:
    yours, ours = learner.make("Memtable"), Memtable()
    for ledger_id, entry_id, data in puts:
        yours.call("put", object, ledger_id, entry_id, data)
        rule = _FOUND if ours.get(ledger_id, entry_id) is None else _FIRST
        ours.put(ledger_id, entry_id, data)
        # Request the entry repeatedly, because neither `get` nor `entries` may remove it.
        _check_get(yours, ours, ledger_id, entry_id, rule)
        _check_get(yours, ours, ledger_id, entry_id, rule)
        for ledger in (ledger_id, ledger_id + 1):
            _check(yours, _LAST, ours.last_entry_id(ledger), "last_entry_id", int, ledger)
        _check(yours, _SIZE, ours.size_bytes, "size_bytes", int)
        _check(yours, _SORTED, list(ours), "entries", list[tuple[int, int, bytes]])
        _check_get(yours, ours, ledger_id, entry_id, rule)
    for ledger_id, entry_id, _ in puts:
        _check_get(yours, ours, ledger_id, entry_id, _FOUND)
        _check_get(yours, ours, ledger_id, entry_id + 1, _FOUND)


def _check_get(
    yours: LearnersObject, ours: Memtable, ledger_id: int, entry_id: int, rule: str
) -> None:
    right = ours.get(ledger_id, entry_id)
    rule = _ABSENT if right is None else rule
    _check(yours, rule, right, "get", bytes | None, ledger_id, entry_id)


def _check(
    yours: LearnersObject, rule: str, right: object, method: str, returns: Any, *arguments: int
) -> None:
    found = yours.call(method, returns, *arguments)
    if found != right:
        call = f"memtable.{method}({', '.join(map(str, arguments))})"
        raise Refused(rule, f"{call} must return {right!r}; yours returned {found!r}")


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
    """Return the number of id comparisons per entry while entries are added, looked up and flushed.

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
        ContractLine(_FOUND, broken_by=(*LOSSES, "refused")),
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
