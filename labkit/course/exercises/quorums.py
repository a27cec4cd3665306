"""The exercises of lesson 05: which bookies store an entry, and what the responses of some bookies
prove.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.exercise import exercise
from labkit.course.checking.refused import Refused
from labkit.course.exercises.generated import cluster as generated
from labkit.course.runs.cluster_trial import (
    ClusterTrial,
    client_with,
    counterexample_at,
    failed_steps,
    must_hold,
    replacing,
)
from labkit.system.client import quorum, striping
from labkit.system.client.quorum import is_covered
from labkit.system.client.recovery import LedgerRecovery
from labkit.system.model.entry import Entry
from labkit.system.model.errors import PROVES_ABSENCE, BKException
from labkit.system.trace.sentence import how_it_ended
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
    return tuple((entry_id + i) % ensemble_size for i in range(write_quorum))


# The write set


@exercise(
    "quorums.write_set",
    hints=(
        "Ensemble indices range from 0 to ensemble_size - 1. The write set of entry 0 starts at"
        " index 0, that of entry 1 at index 1. Where does that of entry ensemble_size start?",
        "An entry uses write_quorum consecutive indices, wrapping around from the last index to the"
        " first. The remainder of a division wraps around.",
        "tuple((entry_id + i) % ensemble_size for i in range(...)). How many indices are there?",
    ),
    like=write_set,
    cases=Cases(
        generated.striped_entry,
        write_set,
        "The write set of entry e is (e + i) mod E for i from 0 to Qw - 1, in this order.",
    ),
)
def indices(learner: WriteSet) -> str:
    """An entry is stored at Qw consecutive ensemble indices. The first of these indices increases
    by one with each entry.
    """

    def judged(entry_id: int, ensemble_size: int, write_quorum: int) -> tuple[int, ...]:
        chosen = tuple(learner(entry_id, ensemble_size, write_quorum))
        returned = f"write_set({entry_id}, {ensemble_size}, {write_quorum}) returned {chosen}."
        if any(index not in range(ensemble_size) for index in chosen):
            raise Refused(
                f"Ensemble indices must be between 0 and {ensemble_size - 1}, but {returned}"
            )
        if len(set(chosen)) < len(chosen):
            raise Refused(
                "The indices must differ, because two copies on one bookie are lost together."
                f" {returned}"
            )
        if len(chosen) != write_quorum:
            raise Refused(f"An entry must be stored on Qw bookies, but {returned}")
        return chosen

    trial = ClusterTrial(judged)
    with replacing(striping.write_set, trial):
        traces = must_hold(
            _striped(),
            trial.run,
            {
                "WriteSetIsRight": "The bookies of an entry are not stored anywhere, so every"
                " client must compute them with the same formula. Yours sends an entry to a bookie"
                " that no reader will ask for it."
            },
        )
    return (
        f"Writer, readers and recovery found every entry with your formula in {len(traces)} runs."
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
    """Return whether each acknowledged entry is known to at least one bookie that has responded."""
    return is_covered(known, ensemble_size, write_quorum, ack_quorum)


def _doubtful(case: Arguments) -> str:
    """Describe an entry that may have been acknowledged only by bookies that did not respond, if
    such an entry exists.
    """
    known, size, write_quorum, ack_quorum = case
    for first in range(size):
        stripe = striping.write_set(first, size, write_quorum)
        silent = [f"b{index}" for index in stripe if index not in known]
        if len(silent) >= ack_quorum:
            return (
                f"Entry {first} may have been acknowledged by {' and '.join(silent[:ack_quorum])}"
                " alone, and they did not respond."
            )
    return "In every write set, fewer than Qa bookies did not respond."


def _silent_stripes(case: Arguments, _: bool) -> Stripes:
    known, size, write_quorum, ack_quorum = case
    silent = [index for index in range(size) if index not in known]
    return Stripes(size, write_quorum, ack_quorum, entries=size, failed=silent)


@exercise(
    "quorums.coverage",
    hints=(
        "Think of one entry. Qa bookies of its write set have acknowledged it, and you do not know"
        " which ones. When is it possible that none of them has responded?",
        "If at least Qa bookies of the write set are silent, they may be exactly those that"
        " acknowledged the entry. So every write set must have fewer than Qa bookies that are not"
        " in `known`.",
        "There are ensemble_size different write sets, one for each first index. For each, count"
        " the indices that are not in `known`, and compare the count with ack_quorum.",
    ),
    like=covered,
    cases=Cases(
        generated.responses,
        covered,
        lambda _, said: _TOO_EARLY if said else _TOO_LATE,
        explain=_doubtful,
        picture=_silent_stripes,
    ),
)
def coverage(learner: Covered) -> str:
    """Enough bookies have responded once every write set has fewer than Qa bookies that have not
    responded.
    """
    if not learner(frozenset({0, 1, 2}), 3, 3, 2):
        raise Refused(_TOO_LATE)  # Otherwise, no run would ever end.
    trial = ClusterTrial(lambda known, *sizes: learner(frozenset(known), *sizes))
    with replacing(quorum.is_covered, trial):
        traces = must_hold(_readers(), trial.run, {"ReadersLearnWhatIsConfirmed": _TOO_EARLY})
    for trace in traces:
        for end in failed_steps(trace):
            why = f"The reader gave up: {end.step}: {how_it_ended(end)}"
            raise Refused(_TOO_LATE, counterexample_at(trace, end.seq, why))
    return (
        f"In {len(traces)} runs, readers used your function to find out how far the ledger was"
        " confirmed."
    )


_TOO_EARLY = (
    "These responses are not enough: an entry may have been acknowledged only by bookies that have"
    " not responded."
)
_TOO_LATE = (
    "These responses are enough: every acknowledged entry is known to at least one bookie that has"
    " responded. A reader that waits for more cannot read while a bookie is down."
)


def _readers() -> Iterator[Scenario]:
    """Yield runs in which a bookie that lacks the newest entries responds first, and runs in which
    some bookies are down.
    """
    for sizes, lagging, down in (
        ((3, 3, 2), ("b0",), ()),
        ((3, 3, 2), (), ("b2",)),
        ((4, 2, 2), (), ("b0", "b2")),
        ((3, 2, 2), (), ("b0",)),
    ):
        write = Write(0, 6, *sizes, every_ms=1, close=False)
        late = [Delay(f"b{index}", "r", 30) for index in range(1, sizes[0])]
        cut = [Partition(("w",), lagging)] if lagging else []
        crashed = [Crash(name, when=At(ASKED_AT_MS - 10)) for name in down]
        steps = write, Read(when=At(ASKED_AT_MS))
        yield Scenario(Cluster(sizes[0]), steps, (*late, *cut, *crashed), limit_s=20)


# Lost


def is_lost(denied: int, silent: int, write_quorum: int, ack_quorum: int) -> bool:
    """Return whether it is certain that fewer than Qa bookies acknowledged an entry.

    In the entry's write set, `denied` bookies responded that they do not have the entry, and
    `silent` bookies did not respond.
    """
    return denied >= write_quorum - ack_quorum + 1


def _left(case: Arguments) -> str:
    denied, _, write_quorum, ack_quorum = case
    return (
        f"{write_quorum - denied} of {write_quorum} bookies did not deny the entry, and"
        f" {ack_quorum} are enough to acknowledge it."
    )


@exercise(
    "quorums.lost",
    hints=(
        "An acknowledged entry is on at least Qa of its Qw bookies. Which bookies can still be"
        " among those Qa?",
        "A bookie that denied the entry cannot, but a silent one can. So write_quorum - denied"
        " bookies are left.",
        "The entry cannot have been acknowledged if fewer than ack_quorum bookies are left."
        " `silent` does not matter.",
    ),
    like=is_lost,
    cases=Cases(
        generated.denials, is_lost, lambda _, said: _NO_PROOF if said else _PROOF, explain=_left
    ),
)
def lost(learner: Lost) -> str:
    """An entry is lost if so many bookies deny having it that fewer than Qa bookies can have it. A
    bookie that does not respond proves nothing.
    """
    trial = ClusterTrial(learner)
    client = client_with(recovery_class=_judging(trial))
    traces = must_hold(
        _recoveries(),
        lambda scenario: trial.run(scenario, client=client),
        {"AcknowledgedIsDurable": _NO_PROOF, "LedgerIsClosed": _PROOF},
    )
    for trace in traces:
        recoveries = {str(step) for step in trace.scenario.workload if isinstance(step, Recover)}
        failed = [end for end in failed_steps(trace) if end.step in recoveries]
        if failed:
            seq = next(e.seq for e in trace.events if e.kind == "recovery.failed")
            why = f"The ledger was not closed: {failed[0].step}: {how_it_ended(failed[0])}"
            raise Refused(_PROOF, counterexample_at(trace, seq, why))
    return f"{len(traces)} recoveries kept every acknowledged entry and closed the ledger."


_NO_PROOF = (
    "This proves nothing: the bookies that did not deny the entry may be exactly those that"
    " acknowledged it, and recovery would close the ledger before the entry."
)
_PROOF = (
    "These denials are a proof, because fewer than Qa bookies are left. A recovery that waits for"
    " more cannot close a ledger while a bookie is down."
)


def _judging(decide: Lost) -> type[LedgerRecovery]:
    class Judging(LedgerRecovery):
        def judge(self, answers: Sequence[Entry | BKException]) -> quorum.Verdict:
            if any(isinstance(answer, Entry) for answer in answers):
                return quorum.Verdict.FOUND
            denied = sum(isinstance(answer, PROVES_ABSENCE) for answer in answers)
            sizes = self.metadata.write_quorum, self.metadata.ack_quorum
            is_proof = decide(denied, len(answers) - denied, *sizes)
            return quorum.Verdict.NEVER_ACKNOWLEDGED if is_proof else quorum.Verdict.UNKNOWN

    return Judging


def _recoveries() -> Iterator[Scenario]:
    """Yield runs in which the writer dies, and the bookies that lack its entries are the first to
    respond.

    In the last run, a bookie has the newest entry but fails to read it (BookKeeper issue 2908).
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
