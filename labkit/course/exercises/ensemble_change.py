"""Lesson 07: where a new ensemble starts, which bookies it has, and which entries are resent."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.exercise import Refused, exercise
from labkit.course.exercises.generated import cluster as generated
from labkit.course.runs.broken_runs import SpaceTimeCounterexample
from labkit.course.runs.cluster_trial import ClusterTrial, client_with, counterexample_at, must_hold
from labkit.course.runs.ensemble_runs import (
    a_bookie_fails_in_the_middle,
    a_later_add_fails,
    both_bookies_fail,
    storms,
)
from labkit.course.runs.timeline import showing_counterexamples_in
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


# The first entry


def first_entry(last_add_confirmed: int, failed_entry: int, last_add_pushed: int) -> int:
    return first_of_new_segment(last_add_confirmed)


_TOO_LATE = (
    "The new ensemble must include every unconfirmed entry. Earlier unconfirmed entries are sent to"
    " the new bookies as well, but readers would look for them on the old ones."
)
_TOO_EARLY = (
    "The new ensemble must start after LastAddConfirmed: confirmed entries are on the old bookies"
    " and are not copied."
)


@exercise(
    "ensemble_change.first_entry",
    hints=(
        "There are three kinds of entries: confirmed ones, ones in flight, and ones that do not"
        " exist yet. Which of them are sent to the new bookie?",
        "All entries in flight are sent to the new bookie as well, so readers must look for them"
        " there.",
        "Confirmed entries stay on the old bookies. The new ensemble starts at the first entry"
        " after them.",
    ),
    like=first_entry,
    cases=Cases(
        generated.failed_add,
        first_entry,
        lambda case, answer: _TOO_EARLY if answer <= case[0] else _TOO_LATE,
        preferred_rules=(_TOO_EARLY, _TOO_LATE),
    ),
)
def first(learner: FirstEntry) -> str:
    """A new segment starts right after the last confirmed entry."""

    def judged(lac: int, failed: int, pushed: int, last_first: int) -> int:
        answer = learner(lac, failed, pushed)
        if not last_first <= answer <= pushed + 1:
            raise Refused(_TOO_EARLY if answer < last_first else _TOO_LATE)
        return answer

    trial = ClusterTrial(judged)

    class Change(EnsembleChange):
        _failed_entry = -1

        def add_failed(
            self, pending: PendingAdd, place: int, bookie: str, error: BKException
        ) -> None:
            if not self.is_running:
                self._failed_entry = pending.entry_id
            super().add_failed(pending, place, bookie, error)

        def first_of_new_segment(self) -> int:
            writer = self.writer
            last_first = writer.metadata.segments[-1].first_entry_id
            entries = writer.last_add_confirmed, self._failed_entry, writer.last_add_pushed
            return int(trial(*entries, last_first))

    def run_one(scenario: Scenario) -> Trace:
        return trial.run(scenario, client=_client_changing_by(Change))

    with showing_counterexamples_in(SpaceTimeCounterexample):
        traces = must_hold(_scenarios(), run_one, {})
    changes = trial.call_count
    return f"No confirmed entry was lost in {len(traces)} runs with {changes} ensemble changes."


# Resending entries


def must_send(
    index: int, replaced: frozenset[int], write_set: tuple[int, ...], acked: frozenset[int]
) -> bool:
    """Return whether a pending entry must be resent to the bookie at this ensemble index."""
    return index in replaced and index in write_set


_NOT_SENT = (
    "When a bookie is replaced, its pending entries must be sent to the new bookie. Otherwise the"
    " new bookie never acknowledges them."
)
_STALE_ACK = (
    "An acknowledgement counts only if readers will ask the bookie that sent it. The replaced"
    " bookie acknowledged the entry, but the metadata now lists the new bookie, which does not have"
    " it."
)
_OUTSIDE = "An entry is stored only on its write set; no reader looks for it on other bookies."
_WASTE = (
    "A bookie that was not replaced has already been sent the entry, and will respond to it: do not"
    " resend."
)


def _resend_rule_of(case: Arguments, answer: bool) -> str:
    index, _, stripe, acked = case
    if answer:
        return _WASTE if index in stripe else _OUTSIDE
    return _STALE_ACK if index in acked else _NOT_SENT


@exercise(
    "ensemble_change.resend",
    hints=(
        "You know three things about an index: whether its bookie is new, whether it is in the"
        " entry's write set, and whether it has acknowledged the entry. Which two of them matter?",
        "A new bookie has no entries, no matter what the old one had. It needs every pending entry"
        " that it must store.",
        "Resend if the index was replaced and is in the entry's write set. An acknowledgement from"
        " this index came from the old bookie.",
    ),
    like=must_send,
    cases=Cases(
        generated.pending_entry,
        must_send,
        _resend_rule_of,
        preferred_rules=(_NOT_SENT, _STALE_ACK, _OUTSIDE),
    ),
)
def resend(learner: MustSend) -> str:
    """Each pending entry is resent to the new bookies of its write set, and to no others."""
    trial = ClusterTrial(learner)

    class Change(EnsembleChange):
        def send_to_replacements(self) -> None:
            replaced = self.switch_to_new_ensemble()
            metadata = self.writer.metadata
            size, quorum = metadata.ensemble_size, metadata.write_quorum
            for pending in self.writer.pending if replaced else ():
                stripe = write_set(pending.entry_id, size, quorum)
                acked = frozenset(i for i in range(size) if pending.acked >> i & 1)
                for index in range(size):
                    if trial(index, replaced, stripe, acked):
                        self.send_again(pending, index)

    def run_one(scenario: Scenario) -> Trace:
        trace = trial.run(scenario, client=_client_changing_by(Change))
        _all_ended(trace)
        return trace

    with showing_counterexamples_in(SpaceTimeCounterexample):
        traces = must_hold(_scenarios(), run_one, {"AcknowledgedIsDurable": _STALE_ACK})
    return (
        f"In {len(traces)} runs, every pending entry was confirmed and none was resent"
        " unnecessarily."
    )


def _all_ended(trace: Trace) -> None:
    """Raise `Refused` if an entry is never confirmed, provided that the workload has only one
    step.
    """
    if len(trace.scenario.workload) > 1:
        return
    sent = [e for e in trace.events if e.kind == "add.pushed" and e.node == "w"]
    confirmed = {e.entry for e in trace.events if e.kind == "lac.advanced" and e.node == "w"}
    for event in sent:
        if event.entry not in confirmed:
            reason = f"Entry {event.entry} is never confirmed, and its writer waits forever."
            raise Refused(_NOT_SENT, counterexample_at(trace, event.seq, reason))


# The new ensemble


def new_ensemble(
    ensemble: tuple[str, ...], failed: dict[int, str], writable: list[str]
) -> tuple[str, ...]:
    """Return the ensemble, with failed bookies replaced as long as spare bookies are available."""
    spare = [name for name in writable if name not in ensemble]
    return with_replacements(ensemble, dict(zip(sorted(failed), spare, strict=False)))


def _broken_rule(case: Arguments, new: tuple[str, ...]) -> str:
    old, failed, writable = case
    if len(new) != len(old):
        return f"The new ensemble must have {len(old)} bookies, like the old one, got {len(new)}."
    if any(new[at] != old[at] for at in range(len(old)) if at not in failed):
        return (
            "A working bookie must keep its index: write sets consist of indices, so a bookie that"
            " moves would need all entries again."
        )
    if len(set(new)) < len(new):
        return "A bookie must not be in an ensemble twice: two copies on it are lost together."
    spare = [name for name in writable if name not in old]
    if any(new[at] not in (*spare, old[at]) for at in failed):
        return "A new bookie must accept writes; this one does not."
    if sum(new[at] != old[at] for at in failed) < min(len(spare), len(failed)):
        return (
            "Another bookie accepts writes, so it must replace the failed one. Otherwise copies are"
            " missing."
        )
    return ""


@exercise(
    "ensemble_change.replacement",
    hints=(
        "Start with a list of the old ensemble. Which of its indices may change at all?",
        "A candidate accepts writes and is not in the ensemble yet. A failed bookie may still be"
        " registered, so it may be both in `writable` and in the ensemble.",
        "Go through the failed indices in order and put the next candidate at each of them. If you"
        " run out of candidates, leave the rest unchanged.",
    ),
    like=new_ensemble,
    # Compare the rules that the answers break rather than the answers, because any spare bookie may
    # replace any failed one.
    cases=Cases(generated.failed_bookies, new_ensemble, _broken_rule, comparable=_broken_rule),
)
def replacement(learner: NewEnsemble) -> str:
    """Failed bookies are replaced by spare ones, and working bookies keep their indices."""

    def judged(
        ensemble: tuple[str, ...], failed: dict[int, str], writable: list[str]
    ) -> tuple[str, ...]:
        answer = learner(ensemble, failed, writable)
        if rule := _broken_rule((ensemble, failed, writable), answer):
            raise Refused(rule)
        return answer

    trial = ClusterTrial(judged)

    class Watcher(BookieWatcher):
        async def replacements(
            self,
            ensemble: Sequence[str],
            failed: Mapping[int, str],
            write_quorum: int,
            given_up: Sequence[str] = (),
        ) -> dict[int, str]:
            names = await self.writable()
            others = [each for each in names if each not in given_up or each in ensemble]
            new = trial(tuple(ensemble), dict(failed), others)
            return {at: new[at] for at in failed if new[at] != ensemble[at]}

    def run_one(scenario: Scenario) -> Trace:
        return trial.run(scenario, client=client_with(watcher_class=Watcher))

    with showing_counterexamples_in(SpaceTimeCounterexample):
        traces = must_hold((*_ensembles(), *storms()), run_one, {})
    return (
        f"In {len(traces)} runs, all {trial.call_count} new ensembles were right, and no entry was"
        " lost."
    )


def _ensembles() -> Iterator[Scenario]:
    yield a_bookie_fails_in_the_middle()
    yield both_bookies_fail()
    kept = a_bookie_fails_in_the_middle()
    yield replace(kept, faults=(Pause("b1", when=On("lac.advanced", 3)),))
    yield replace(kept, cluster=Cluster(3))
