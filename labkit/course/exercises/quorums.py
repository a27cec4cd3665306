"""Lesson 05: which bookies store an entry, and what the answers of some tell about all."""

from collections.abc import Callable, Collection, Iterator, Sequence

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.exercise import Refused, exercise
from labkit.course.exercises.generated import cluster as drawn
from labkit.course.runs.cluster_trial import (
    Guest,
    client_with,
    failures,
    found,
    in_place_of,
    must_hold,
)
from labkit.system.client import quorum, striping
from labkit.system.client.quorum import is_covered
from labkit.system.client.recovery import LedgerRecovery
from labkit.system.model.entry import Entry
from labkit.system.model.errors import PROVES_ABSENCE, BKException
from labkit.views.widgets.stripes import Stripes
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.scenario.faults import BitRot, Crash, Delay, Partition
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At
from labkit.worlds.sim.workload.steps import Read, Recover, Write

WriteSet = Callable[[int, int, int], tuple[int, ...]]
Covered = Callable[[frozenset[int], int, int, int], bool]
Lost = Callable[[int, int, int, int], bool]

SIZES = ((3, 2, 2), (3, 3, 2), (4, 2, 1), (5, 3, 2))
STORM_COUNT = 6
ASKED_AT_MS = 40


def write_set(entry_id: int, ensemble_size: int, write_quorum: int) -> tuple[int, ...]:
    """Places in the ensemble of the bookies that store the entry."""
    return tuple((entry_id + i) % ensemble_size for i in range(write_quorum))


# The write set


@exercise(
    "quorums.write_set",
    hints=(
        "Places count from 0 to ensemble_size - 1. Entry 0 begins at place 0, entry 1 at place 1."
        " Where does entry number ensemble_size begin?",
        "An entry takes write_quorum places in a row, and behind the last place comes the first"
        " again: that is the remainder of a division.",
        "tuple((entry_id + i) % ensemble_size for i in range(...)): how many?",
    ),
    like=write_set,
    cases=Cases(
        drawn.striped_entry,
        write_set,
        "An entry's places are (e + i) mod E for i from 0 to Qw - 1, in this order.",
    ),
)
def places(learner: WriteSet) -> str:
    """Qw different places in a row, the first one moving by one with each entry."""

    def judged(entry_id: int, ensemble_size: int, write_quorum: int) -> tuple[int, ...]:
        chosen = tuple(learner(entry_id, ensemble_size, write_quorum))
        _check_places(chosen, f"{entry_id}, {ensemble_size}, {write_quorum}", ensemble_size)
        if len(chosen) != write_quorum:
            raise Refused(
                f"An entry must be stored on Qw bookies. write_set({entry_id}, {ensemble_size},"
                f" {write_quorum}) gives {chosen}."
            )
        return chosen

    guest = Guest(judged)
    with in_place_of(striping.write_set, guest):
        traces = must_hold(
            _striped(),
            guest.run,
            {
                "WriteSetIsRight": "Every client finds an entry by this formula; the list of its"
                " bookies is not stored anywhere. So all must use the same formula, and yours sends"
                " an entry where no reader looks for it."
            },
        )
    return f"Writer, readers and recovery found every entry by your formula in {len(traces)} runs."


def _check_places(chosen: tuple[int, ...], call: str, ensemble_size: int) -> None:
    outside = [place for place in chosen if place not in range(ensemble_size)]
    if outside:
        raise Refused(
            f"An ensemble of {ensemble_size} has the places 0 to {ensemble_size - 1}."
            f" write_set({call}) gives {chosen}."
        )
    if len(set(chosen)) < len(chosen):
        raise Refused(
            "Two copies on one bookie are lost together: the places must differ."
            f" write_set({call}) gives {chosen}."
        )


def _striped() -> Iterator[Scenario]:
    cluster = Cluster(6)
    for sizes in SIZES:
        yield Scenario(cluster, (Write(0, 8, *sizes), Read(when=At(20))))
    for seed in range(STORM_COUNT):
        steps = Write(0, 12, *SIZES[seed % len(SIZES)], every_ms=1), Recover(when=At(12))
        yield storm(Scenario(cluster, steps), seed, fault_count=3)


# Coverage


def covered(known: frozenset[int], ensemble_size: int, write_quorum: int, ack_quorum: int) -> bool:
    """Whether no entry can have been acknowledged by bookies of which none answered."""
    return is_covered(known, ensemble_size, write_quorum, ack_quorum)


def _doubtful(case: Arguments) -> str:
    """An entry that the silent bookies alone can have acknowledged, if there is one."""
    known, size, write_quorum, ack_quorum = case
    for first in range(size):
        places = striping.write_set(first, size, write_quorum)
        silent = [f"b{place}" for place in places if place not in known]
        if len(silent) >= ack_quorum:
            return (
                f"Entry {first} may have been acknowledged by"
                f" {' and '.join(silent[:ack_quorum])} alone, and no answer shows it."
            )
    return "In each write set those who did not answer are fewer than Qa."


def _silent_stripes(case: Arguments, _: bool) -> Stripes:
    known, size, write_quorum, ack_quorum = case
    silent = [place for place in range(size) if place not in known]
    return Stripes(size, write_quorum, ack_quorum, entries=size, failed=silent)


@exercise(
    "quorums.coverage",
    hints=(
        "Think of one entry. Qa bookies of its write set acknowledged it, and you do not know"
        " which. When can it be that none of those has answered?",
        "If in its write set Qa bookies or more are silent, they may be just those. So in every"
        " write set fewer than Qa may be missing in `known`.",
        "There are ensemble_size different write sets, one for each first place. Count in each the"
        " places that are not in `known`, and compare each count with ack_quorum.",
    ),
    like=covered,
    cases=Cases(
        drawn.answers,
        covered,
        lambda _, said: _TOO_EARLY if said else _TOO_LATE,
        why=_doubtful,
        picture=_silent_stripes,
    ),
)
def coverage(learner: Covered) -> str:
    """In each write set fewer than Qa places are unknown."""
    if not learner(frozenset({0, 1, 2}), 3, 3, 2):
        raise Refused(_TOO_LATE)  # With such an answer no run comes to an end.
    guest = Guest(lambda known, *sizes: learner(frozenset(known), *sizes))
    with in_place_of(quorum.is_covered, guest):
        traces = must_hold(_readers(), guest.run, {"ReadersLearnWhatIsConfirmed": _TOO_EARLY})
    for trace in traces:
        for note in failures(trace):
            seq = next(e.seq for e in trace.events if e.kind == "step.ended" and e.note == note)
            raise Refused(_TOO_LATE, found(trace, seq, f"The reader gave up: {note}"))
    return f"{len(traces)} readers learned with it how far the ledger was confirmed."


_TOO_EARLY = (
    "These answers are not enough: an entry may have been acknowledged by bookies of which none"
    " answered."
)
_TOO_LATE = (
    "These answers are enough: of every acknowledged entry at least one of them knows. A reader"
    " that waits for more cannot read while a bookie is down."
)


def _readers() -> Iterator[Scenario]:
    """A reader hears first from the bookie that knows least, and of some it hears nothing."""
    for sizes, lagging, down in (
        ((3, 3, 2), ("b0",), ()),
        ((3, 3, 2), (), ("b2",)),
        ((4, 2, 2), (), ("b0", "b2")),
        ((3, 2, 2), (), ("b0",)),
    ):
        write = Write(0, 6, *sizes, every_ms=1, close=False)
        late = [Delay(f"b{place}", "r", 30) for place in range(1, sizes[0])]
        cut = [Partition(("w",), lagging)] if lagging else []
        crashed = [Crash(name, when=At(ASKED_AT_MS - 10)) for name in down]
        steps = write, Read(when=At(ASKED_AT_MS))
        yield Scenario(Cluster(sizes[0]), steps, (*late, *cut, *crashed), limit_s=20)


# Lost


def is_lost(denied: int, silent: int, write_quorum: int, ack_quorum: int) -> bool:
    """Whether an entry cannot have been acknowledged.

    `denied` bookies of its write set said that they do not have it, `silent` ones failed.
    """
    return denied >= write_quorum - ack_quorum + 1


def _left(case: Arguments) -> str:
    denied, _, write_quorum, ack_quorum = case
    return (
        f"{write_quorum - denied} of {write_quorum} did not deny it, and {ack_quorum} are enough to"
        " acknowledge it."
    )


@exercise(
    "quorums.lost",
    hints=(
        "An entry was acknowledged if Qa of its Qw bookies have it. Which of them can still be"
        " among those Qa?",
        "A bookie that said no is not among them. One that is silent may be. So those left are"
        " write_quorum - denied.",
        "It cannot have been acknowledged once those left are fewer than ack_quorum. `silent`"
        " plays no part.",
    ),
    like=is_lost,
    cases=Cases(drawn.denials, is_lost, lambda _, said: _NO_PROOF if said else _PROOF, why=_left),
)
def lost(learner: Lost) -> str:
    """Lost: enough bookies deny it that fewer than Qa are left; silence proves nothing."""
    guest = Guest(learner)
    client = client_with(recovery_class=_judging(guest))
    traces = must_hold(
        _recoveries(),
        lambda scenario: guest.run(scenario, client=client),
        {"AcknowledgedIsDurable": _NO_PROOF, "LedgerIsClosed": _PROOF},
    )
    for trace in traces:
        failed = [note for note in failures(trace) if note.startswith("recover")]
        if failed:
            seq = next(e.seq for e in trace.events if e.kind == "recovery.failed")
            raise Refused(_PROOF, found(trace, seq, f"The ledger stayed open: {failed[0]}"))
    return f"{len(traces)} recoveries kept all that was acknowledged and came to an end."


_NO_PROOF = (
    "That proves nothing: those that did not say no may be the very ones that acknowledged the"
    " entry, and recovery would close the ledger before it."
)
_PROOF = (
    "These denials are a proof: fewer than Qa bookies are left. A recovery that asks for more"
    " cannot close a ledger while a bookie is down."
)


def _judging(decide: Lost) -> type[LedgerRecovery]:
    class Judging(LedgerRecovery):
        """Asks the learner's function what the denials mean."""

        def judge(self, answers: Sequence[Entry | BKException]) -> quorum.Verdict:
            if any(isinstance(answer, Entry) for answer in answers):
                return quorum.Verdict.FOUND
            denied = sum(isinstance(answer, PROVES_ABSENCE) for answer in answers)
            sizes = self.metadata.write_quorum, self.metadata.ack_quorum
            is_proof = decide(denied, len(answers) - denied, *sizes)
            return quorum.Verdict.LOST if is_proof else quorum.Verdict.UNKNOWN

    return Judging


def _recoveries() -> Iterator[Scenario]:
    """A writer stops; who recovers hears first from bookies that never got the entries.

    In the last one a bookie has the newest entry and cannot read it (BookKeeper issue 2908).
    """
    for sizes, lagging, down in (
        ((3, 3, 2), ("b0",), ()),
        ((3, 3, 2), ("b0",), ("b1",)),
        ((3, 3, 2), (), ("b1",)),
        ((3, 3, 3), (), ("b1", "b2")),
        ((5, 5, 2), ("b0", "b1", "b2"), ()),
        ((5, 3, 2), (), ("b3",)),
    ):
        entries = 0 if len(down) > 1 else 6
        write = Write(0, entries, *sizes, every_ms=1, close=False)
        late = [Delay(name, "r", 30) for name in _others(sizes[0], lagging)]
        cut = [Partition(("w",), lagging)] if lagging else []
        crashed = [Crash(name, when=At(ASKED_AT_MS - 10)) for name in ("w", *down)]
        steps = write, Recover(when=At(ASKED_AT_MS))
        yield Scenario(Cluster(sizes[0]), steps, (*late, *cut, *crashed), limit_s=20)
    write = Write(0, 6, 3, 3, 2, every_ms=1, close=False)
    rotten = BitRot("b1", part=0.99, when=At(250))
    faults = Partition(("w",), ("b0",)), Delay("b2", "r", 30), Crash("w", when=At(30)), rotten
    yield Scenario(Cluster(3), (write, Recover(when=At(300))), faults)


def _others(size: int, names: Collection[str]) -> list[str]:
    return [name for name in Cluster(size).names if name not in names]
