"""Lesson 15: taking a log over, the newest offsets, and which snapshots are garbage."""

from collections.abc import Callable

from labkit.course.checking.cases import Arguments, Cases, in_any_order
from labkit.course.checking.exercise import Refused, exercise, in_order
from labkit.course.exercises.generated import uses as drawn
from labkit.course.runs.broken_runs import SpaceTimeCounterexample
from labkit.course.runs.cluster_trial import Guest, found
from labkit.course.runs.timeline import shown_as
from labkit.course.runs.uses import stories
from labkit.course.runs.uses.edit_log import PUBLISH, RECOVER, REPLAY, TAKE_OVER, StepError
from labkit.course.runs.uses.offset_store import Newest, Record, newest
from labkit.course.runs.uses.snapshot_store import Ledger, Named, Removable, removable

# Taking over a write-ahead log

_ORDER_RULES = (
    (
        RECOVER,
        REPLAY,
        "Until the last ledger is recovered, the other name node can add to it and answer: what is"
        " replayed before that is not all that was answered.",
    ),
    (
        RECOVER,
        PUBLISH,
        "The next name node recovers the last ledger of the list alone. If the list gets a new one"
        " before the old one is fenced, and you die, no name node ever fences the old one.",
    ),
)
_NO_LOSS = "Every edit that was answered must be found by the next active name node."


@exercise(
    "build_on_it.take_over",
    hints=(
        "Ask of every two neighbours: what if the other name node is alive and goes on, or if you"
        " die between them? What does the next one find?",
        "Three things depend on each other: the list says which ledger is the last, recovery makes"
        " sure that this ledger gets no more edits, and only then is it known what there is.",
        "Read, recover, replay; then create, and put it into the list.",
    ),
)
def take_over(learner: object) -> str:
    """No answered edit is lost, at whichever step of a take-over a name node dies."""
    order = in_order(TAKE_OVER, learner)
    at = {step: number for number, step in enumerate(order)}
    broken = [rule for first, second, rule in _ORDER_RULES if at[first] > at[second]]
    ends = (None, *range(1, len(TAKE_OVER)))
    with shown_as(SpaceTimeCounterexample):
        for dies_after in ends:
            try:
                ran = stories.name_nodes(order, dies_after)
            except StepError as error:
                raise Refused(f"A step comes too early: {error}.") from None
            for node, edit in ran.lost():
                raise _lost(broken, ran, node, edit)
    return f"In {len(ends)} runs, with the new name node dying after each step, no edit was lost."


def _lost(broken: list[str], ran: stories.NameNodes, node: str, edit: stories.Edit) -> Refused:
    place = edit.ledger_id, edit.entry_id
    confirmed = next(
        event
        for event in ran.trace.events
        if event.kind == "lac.advanced" and (event.ledger, event.entry) == place
    )
    reason = f"{edit.node} answered mkdir {edit.directory}, and {node} does not know it"
    rule = broken[0] if broken else _NO_LOSS
    return Refused(rule, found(ran.trace, confirmed.seq, reason))


# The newest offsets

_REMOVED = "A group that was removed has no offset, unless it commits again."
_LAST = (
    "The record written last counts, not the largest offset: a consumer may go back to read again."
)


def _offsets_rule_of(case: Arguments, answer: dict[str, int]) -> str:
    return _REMOVED if set(answer) != set(newest(*case)) else _LAST


_COMMITS: tuple[Record, ...] = (
    ("billing", 5),
    ("audit", 3),
    ("billing", 9),
    ("billing", 4),
    ("audit", None),
    ("stock", 7),
)


@exercise(
    "build_on_it.offsets",
    hints=(
        "Go through the records in their order. What does a later record of a group say about the"
        " earlier ones?",
        "Each record replaces what was known of its group. What does it replace it with, if it has"
        " None?",
        "offsets[group] = offset; for None offsets.pop(group, None), as it may have none.",
    ),
    like=newest,
    cases=Cases(drawn.records, newest, _offsets_rule_of),
)
def newest_offsets(learner: Newest) -> str:
    """After a crash each group goes on from its newest offset."""

    def judged(records: list[Record]) -> dict[str, int]:
        answer = learner(records)
        if len(answer) > len(records):
            raise Refused(f"{len(records)} records name {len(answer)} groups in your answer.")
        return answer

    guest = Guest(judged)
    runs = 0
    for limit in (100, 3):
        for dies_after in (None, *range(1, len(_COMMITS) + 1)):
            ran = stories.offsets(_COMMITS, guest, dies_after, limit)
            runs += 1
            if ran.found not in ran.allowed(_COMMITS):
                last = next(e for e in ran.trace.events if e.kind == "recovery.started")
                reason = f"answered were {list(ran.answered)}, and t found {ran.found}"
                rule = _offsets_rule_of((list(ran.answered),), ran.found)
                raise Refused(rule, found(ran.trace, last.seq, reason))
    return f"In {runs} runs, with the store dying after each commit, every group went on rightly."


# Which snapshots are garbage

_TOO_EARLY = (
    "A ledger that no name points to may be a snapshot that is still being written, or that is just"
    " about to get its name: its version is newer than the one that the name has."
)
_IN_USE = "The ledger that a name points to is the snapshot."
_LEFT = (
    "Garbage must go: an older version, and one that was stored at the same time as the one that"
    " got the name."
)


def _garbage_rule_of(case: Arguments, answer: list[int]) -> str:
    ledgers, named = case
    wrong = set(answer) - set(removable(ledgers, named))
    if wrong & {ledger_id for _, ledger_id in named.values()}:
        return _IN_USE
    return _TOO_EARLY if wrong else _LEFT


@exercise(
    "build_on_it.garbage",
    hints=(
        "For each ledger look at what the name of its snapshot says: which version, and which"
        " ledger? Three relations are possible between the two versions.",
        "Newer than the name's: it may be under way. Older: no reader gets it any more. Of the same"
        " version: is it the one that the name points to?",
        "name in named, and another ledger than named[name][1], and version <= named[name][0].",
    ),
    like=removable,
    cases=Cases(drawn.ledgers_of_snapshots, removable, _garbage_rule_of, counts=in_any_order),
)
def garbage(learner: Removable) -> str:
    """Garbage goes, and what is being written stays."""

    def judged(ledgers: list[Ledger], named: Named) -> list[int]:
        answer = learner(ledgers, named)
        if len(answer) > len(ledgers):
            raise Refused(f"{len(ledgers)} ledgers are there; yours deletes {len(answer)}.")
        return answer

    guest: Callable[[list[Ledger], Named], list[int]] = Guest(judged)
    ran = stories.snapshots(guest)
    failed = {name: error for name, error in ran.stored.items() if "NoSuchLedger" in repr(error)}
    deleted = [e for e in ran.trace.events if e.kind == "ledger.deleted"]
    if failed or ran.read is None:
        name = next(iter(failed), "look")
        reason = f"{name} could not go on: its ledger was collected"
        raise Refused(_TOO_EARLY, found(ran.trace, deleted[0].seq, reason))
    if len(ran.left) > 1:
        reason = f"the ledgers {list(ran.left)} are there, and one name"
        raise Refused(_LEFT, found(ran.trace, ran.trace.events[-1].seq, reason))
    return f"{len(ran.collected)} ledgers were collected while four clients stored snapshots."
