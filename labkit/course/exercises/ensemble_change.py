"""Lesson 07: from where a new ensemble holds, who is in it, and what is sent again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.exercise import Refused, exercise
from labkit.course.exercises.generated import cluster as drawn
from labkit.course.runs.broken_runs import SpaceTimeCounterexample
from labkit.course.runs.cluster_trial import Guest, client_with, found, must_hold
from labkit.course.runs.ensemble_runs import (
    a_bookie_fails_in_the_middle,
    a_later_add_fails,
    both_bookies_fail,
    storms,
)
from labkit.course.runs.timeline import shown_as
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.ensemble import first_of_new_segment, with_replacements
from labkit.system.client.ensemble_change import EnsembleChange
from labkit.system.client.pending_add import PendingAdd
from labkit.system.client.placement.bookie_watcher import BookieWatcher
from labkit.system.client.striping import write_set
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.errors import BKException
from labkit.worlds.sim.scenario.faults import Pause
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.trace import Trace

FirstEntry = Callable[[int, int, int], int]
NewEnsemble = Callable[[tuple[str, ...], dict[int, str], list[str]], tuple[str, ...]]
MustSend = Callable[[int, frozenset[int], tuple[int, ...], frozenset[int]], bool]


def _scenarios() -> Iterator[Scenario]:
    yield both_bookies_fail()
    yield a_later_add_fails()
    yield a_bookie_fails_in_the_middle()
    yield from storms()


def _client_changing_by(change: type[EnsembleChange]) -> type[BookKeeper]:
    class Writer(LedgerWriter):
        ensemble_change_class = change

    return client_with(writer_class=Writer)


# From which entry


def first_entry(last_add_confirmed: int, failed_entry: int, last_add_pushed: int) -> int:
    """The first entry that the new ensemble holds."""
    return first_of_new_segment(last_add_confirmed)


_TOO_LATE = (
    "The new ensemble must hold every entry that is not confirmed. An earlier unconfirmed entry"
    " gets copies on the new bookies, too, but a reader looks for it on the old ones."
)
_TOO_EARLY = (
    "Confirmed entries lie on the old bookies, and are not copied: the new ensemble must begin"
    " behind LastAddConfirmed."
)


@exercise(
    "ensemble_change.first_entry",
    hints=(
        "There are three kinds of entries: confirmed ones, those on their way, and those that do"
        " not exist yet. Which of them are sent to the new bookie?",
        "All entries on their way go to the new bookie as well. Readers must look for them where"
        " they are now.",
        "A confirmed entry stays where it is. The first entry after it is the first that moves.",
    ),
    like=first_entry,
    cases=Cases(
        drawn.failed_add,
        first_entry,
        lambda case, answer: _TOO_EARLY if answer <= case[0] else _TOO_LATE,
        of_runs=(_TOO_EARLY, _TOO_LATE),
    ),
)
def first(learner: FirstEntry) -> str:
    """A segment begins behind all that is confirmed, and holds all that is not."""

    def judged(lac: int, failed: int, pushed: int, last_first: int) -> int:
        answer = learner(lac, failed, pushed)
        if not last_first <= answer <= pushed + 1:
            raise Refused(_TOO_EARLY if answer < last_first else _TOO_LATE)
        return answer

    guest = Guest(judged)

    class Change(EnsembleChange):
        """Asks the learner from which entry on a new ensemble holds."""

        _failed_entry = -1

        def add_failed(
            self, pending: PendingAdd, place: int, bookie: str, error: BKException
        ) -> None:
            if self.task is None:
                self._failed_entry = pending.entry_id
            super().add_failed(pending, place, bookie, error)

        def first_entry_id(self) -> int:
            ledger = self.ledger
            last_first = ledger.metadata.segments[-1].first_entry_id
            entries = ledger.last_add_confirmed, self._failed_entry, ledger.last_add_pushed
            return int(guest(*entries, last_first))

    def run_one(scenario: Scenario) -> Trace:
        return guest.run(scenario, client=_client_changing_by(Change))

    with shown_as(SpaceTimeCounterexample):
        traces = must_hold(_scenarios(), run_one, {})
    changes = guest.call_count
    return f"Nothing confirmed was lost in {len(traces)} runs with {changes} ensemble changes."


# What is sent again


def must_send(
    place: int, replaced: frozenset[int], places: tuple[int, ...], acked: frozenset[int]
) -> bool:
    """Whether a pending entry goes again to this place of the ensemble."""
    return place in replaced and place in places


_NOT_SENT = (
    "An entry that is not sent is never acknowledged: when a bookie is replaced, its entries must"
    " be sent to the new bookie."
)
_STALE_ACK = (
    "An acknowledgement counts only from a bookie that readers will ask. The one that was replaced"
    " acknowledged, but the metadata names another in its place, and that one has nothing."
)
_OUTSIDE = "An entry is stored on the places of its write set; no reader looks for it elsewhere."
_WASTE = (
    "A bookie that stays in its place got the entry already, and its answer is under way: do not"
    " send it again."
)


def _resend_rule_of(case: Arguments, answer: bool) -> str:
    place, _, places, acked = case
    if answer:
        return _WASTE if place in places else _OUTSIDE
    return _STALE_ACK if place in acked else _NOT_SENT


@exercise(
    "ensemble_change.resend",
    hints=(
        "Three kinds of places: those of new bookies, those of the entry's write set, those that"
        " acknowledged. Which two of these questions decide?",
        "A new bookie has no entries, whatever the old one had. It needs each pending entry that it"
        " must store.",
        "If the place was replaced and is in the entry's write set, send. An acknowledgement from"
        " there came from the bookie that is gone.",
    ),
    like=must_send,
    cases=Cases(
        drawn.pending_entry, must_send, _resend_rule_of, of_runs=(_NOT_SENT, _STALE_ACK, _OUTSIDE)
    ),
)
def resend(learner: MustSend) -> str:
    """Each pending entry goes to the new bookies of its write set, and only to these."""
    guest = Guest(learner)

    class Change(EnsembleChange):
        """Asks the learner for each pending entry and place."""

        def send_to_replacements(self) -> None:
            replaced = self.go_to_replacements()
            metadata = self.ledger.metadata
            size, quorum = metadata.ensemble_size, metadata.write_quorum
            for pending in self.ledger.pending if replaced else ():
                places = write_set(pending.entry_id, size, quorum)
                acked = frozenset(p for p in range(size) if pending.acked >> p & 1)
                for place in range(size):
                    if guest(place, replaced, places, acked):
                        self.send_again(pending, place)

    def run_one(scenario: Scenario) -> Trace:
        trace = guest.run(scenario, client=_client_changing_by(Change))
        _all_ended(trace)
        return trace

    with shown_as(SpaceTimeCounterexample):
        traces = must_hold(_scenarios(), run_one, {"AcknowledgedIsDurable": _STALE_ACK})
    return f"All that was pending was confirmed in {len(traces)} runs, and nothing sent in vain."


def _all_ended(trace: Trace) -> None:
    """In a small run the writer must come to its end."""
    if len(trace.scenario.workload) > 1:
        return
    sent = [e for e in trace.events if e.kind == "add.pushed" and e.node == "w"]
    confirmed = {e.entry for e in trace.events if e.kind == "lac.advanced" and e.node == "w"}
    for event in sent:
        if event.entry not in confirmed:
            reason = f"Entry {event.entry} is never confirmed; its writer waits."
            raise Refused(_NOT_SENT, found(trace, event.seq, reason))


# The new ensemble


def new_ensemble(
    ensemble: tuple[str, ...], failed: dict[int, str], writable: list[str]
) -> tuple[str, ...]:
    """The ensemble without its failed bookies, as far as there are others."""
    spare = [name for name in writable if name not in ensemble]
    return with_replacements(ensemble, dict(zip(sorted(failed), spare, strict=False)))


def _broken_rule(case: Arguments, new: tuple[str, ...]) -> str:
    old, failed, writable = case
    if len(new) != len(old):
        return f"An ensemble has {len(old)} places before and after; yours has {len(new)}."
    if any(new[at] != old[at] for at in range(len(old)) if at not in failed):
        return (
            "A bookie that works keeps its place: the write set is counted in places, so a bookie"
            " that moves must be sent everything again."
        )
    if len(set(new)) < len(new):
        return "Two copies on one bookie are lost together: each bookie has one place."
    spare = [name for name in writable if name not in old]
    if any(new[at] not in (*spare, old[at]) for at in failed):
        return "A new bookie must take writes; this one does not."
    if sum(new[at] != old[at] for at in failed) < min(len(spare), len(failed)):
        return (
            "Another bookie takes writes: it must take the place of the one that failed, or its"
            " copies are missing."
        )
    return ""


@exercise(
    "ensemble_change.replacement",
    hints=(
        "Begin with a list of the old ensemble. Which of its places may change at all?",
        "A candidate takes writes and is not in the ensemble yet. A failed bookie may still be"
        " registered: it is in `writable`, and in the ensemble as well.",
        "Go through the failed places in order and give each the next candidate. When there are no"
        " more, leave the rest as they are.",
    ),
    like=new_ensemble,
    # Which spare bookie takes which place is all the same.
    cases=Cases(drawn.failed_bookies, new_ensemble, _broken_rule, counts=_broken_rule),
)
def replacement(learner: NewEnsemble) -> str:
    """The others keep their places, and a new bookie takes each that failed, if there is one."""

    def judged(
        ensemble: tuple[str, ...], failed: dict[int, str], writable: list[str]
    ) -> tuple[str, ...]:
        answer = learner(ensemble, failed, writable)
        if rule := _broken_rule((ensemble, failed, writable), answer):
            raise Refused(rule)
        return answer

    guest = Guest(judged)

    class Watcher(BookieWatcher):
        """Asks the learner for the new ensemble."""

        async def replacements(
            self,
            ensemble: Sequence[str],
            failed: Mapping[int, str],
            write_quorum: int,
            given_up: Sequence[str] = (),
        ) -> dict[int, str]:
            names = await self.writable()
            others = [each for each in names if each not in given_up or each in ensemble]
            new = guest(tuple(ensemble), dict(failed), others)
            return {at: new[at] for at in failed if new[at] != ensemble[at]}

    def run_one(scenario: Scenario) -> Trace:
        return guest.run(scenario, client=client_with(watcher_class=Watcher))

    with shown_as(SpaceTimeCounterexample):
        traces = must_hold((*_ensembles(), *storms()), run_one, {})
    return (
        f"{guest.call_count} times asked in {len(traces)} runs: each place well filled, nothing"
        " lost."
    )


def _ensembles() -> Iterator[Scenario]:
    yield a_bookie_fails_in_the_middle()
    yield both_bookies_fail()
    kept = a_bookie_fails_in_the_middle()
    yield replace(kept, faults=(Pause("b1", when=On("lac.advanced", 3)),))
    yield replace(kept, cluster=Cluster(3))
