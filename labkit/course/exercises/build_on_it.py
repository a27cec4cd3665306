"""The exercises of lesson 15: taking over a log, finding each group's newest offset, and finding
garbage snapshots.
"""

from collections.abc import Callable

from labkit.course.checking.cases import Arguments, Cases, in_any_order
from labkit.course.checking.exercise import exercise, require_permutation
from labkit.course.checking.refused import Refused
from labkit.course.exercises.generated import uses as generated
from labkit.course.runs.broken_runs import SpaceTimeCounterexample
from labkit.course.runs.cluster_trial import ClusterTrial, counterexample_at
from labkit.course.runs.timeline import showing_counterexamples_in
from labkit.course.runs.uses import stories
from labkit.course.runs.uses.edit_log import PUBLISH, RECOVER, REPLAY, TAKE_OVER, StepError
from labkit.course.runs.uses.offset_store import Newest, Record, newest
from labkit.course.runs.uses.snapshot_store import Ledger, Named, Removable, removable

# Taking over a write-ahead log

_ORDER_RULES = (
    (
        RECOVER,
        REPLAY,
        "The last ledger must be recovered before the replay. Until then, the other name node can"
        " add edits and acknowledge them, and the replay misses these edits.",
    ),
    (
        RECOVER,
        PUBLISH,
        "The last ledger must be recovered before a new one is added to the list, because a name"
        " node recovers only the last ledger in the list. If you die after adding a new ledger, no"
        " name node will ever fence the old one.",
    ),
)
_NO_LOSS = "The next active name node must find every acknowledged edit."


@exercise(
    "build_on_it.take_over",
    hints=(
        "For each pair of consecutive steps, ask what happens if the other name node is still"
        " active, or if you die between them. What does the next name node find?",
        "Three steps depend on each other: the list tells you which ledger is the last one,"
        " recovery makes sure that this ledger gets no more edits, and only then can you replay all"
        " edits.",
        "Read the list, recover the last ledger, and replay. Then create a ledger and put it into"
        " the list.",
    ),
)
def take_over(learner: object) -> str:
    """No acknowledged edit is lost, regardless of the step at which a name node dies during its
    takeover.
    """
    order = require_permutation(TAKE_OVER, learner)
    at = {step: number for number, step in enumerate(order)}
    broken = [rule for first, second, rule in _ORDER_RULES if at[first] > at[second]]
    ends = (None, *range(1, len(TAKE_OVER)))
    with showing_counterexamples_in(SpaceTimeCounterexample):
        for dies_after in ends:
            try:
                ran = stories.name_nodes(order, dies_after)
            except StepError as error:
                raise Refused(f"One of your steps depends on a later one: {error}.") from None
            for node, edit in ran.lost():
                raise _lost(broken, ran, node, edit)
    return (
        f"No edit was lost in {len(ends)} runs, in which the new name node died after each of the"
        " steps."
    )


def _lost(broken: list[str], ran: stories.NameNodes, node: str, edit: stories.Edit) -> Refused:
    position = edit.ledger_id, edit.entry_id
    confirmed = next(
        event
        for event in ran.trace.events
        if event.kind == "lac.advanced" and (event.ledger, event.entry) == position
    )
    reason = f"{edit.node} acknowledged mkdir {edit.directory}, but {node} does not know it"
    rule = broken[0] if broken else _NO_LOSS
    return Refused(rule, counterexample_at(ran.trace, confirmed.seq, reason))


# The newest offsets

_ZERO = "Offset 0 is an offset like any other: only None removes a group."
_REMOVED = "A group whose last record is None has no offset."
_AGAIN = "A group that was removed and then commits again has an offset."
_EVERY = "Every group has an offset unless its own last record is None."
_NAMES = "Return only groups that occur in the records, under exactly the same names."
_LAST = (
    "The last record of a group counts, not the largest offset: a consumer may go back and reread"
    " messages."
)


def _offsets_rule_of(case: Arguments, answer: dict[str, int]) -> str:
    [records], right = case, newest(*case)
    if not set(answer) <= {group for group, _ in records}:
        return _NAMES
    if not set(answer) <= set(right):
        return _REMOVED
    wrong = next(group for group in right if answer.get(group) != right[group])
    if right[wrong] == 0:
        return _ZERO
    if wrong in answer:
        return _LAST
    return _AGAIN if (wrong, None) in records else _EVERY


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
        "Go through the records in order. What does a later record of a group mean for the earlier"
        " ones?",
        "Each record replaces the previous offset of its group. What must happen if the new offset"
        " is None?",
        "offsets[group] = offset. For None, use offsets.pop(group, None), because the group may not"
        " have an offset.",
    ),
    like=newest,
    cases=Cases(generated.records, newest, _offsets_rule_of),
)
def newest_offsets(learner: Newest) -> str:
    """After a crash, each group resumes from its newest offset."""

    def judged(records: list[Record]) -> dict[str, int]:
        answer = learner(records)
        if len(answer) > len(records):
            raise Refused(
                f"{len(records)} records cannot have {len(answer)} groups; return only groups that"
                " occur in the records."
            )
        return answer

    trial = ClusterTrial(judged)
    runs = 0
    for limit in (100, 3):
        for dies_after in (None, *range(1, len(_COMMITS) + 1)):
            ran = stories.offsets(_COMMITS, trial, dies_after, limit)
            runs += 1
            if ran.found not in ran.allowed(_COMMITS):
                last = next(e for e in ran.trace.events if e.kind == "recovery.started")
                reason = f"acknowledged: {list(ran.answered)}; client t found {ran.found}"
                rule = _offsets_rule_of((list(ran.answered),), ran.found)
                raise Refused(rule, counterexample_at(ran.trace, last.seq, reason))
    return (
        f"In {runs} runs, in which the store died after each of the commits, every group continued"
        " from the right offset."
    )


# Which snapshots are garbage

_TOO_EARLY = (
    "A ledger whose version is newer than the named one must be kept, although no name points to"
    " it: its client may still be writing it, or be about to store its name."
)
_UNNAMED = (
    "A ledger must be kept if its name does not exist yet: its client may still be writing the"
    " first version."
)
_IN_USE = "The ledger that a name points to must be kept: it is the current snapshot."
_UNKNOWN = "Return only ids of ledgers in the list."
_LEFT = "A ledger with an older version than the named one is garbage and must be deleted."
_LOST_RACE = (
    "A ledger with the same version as the named one, but a different id, is garbage: its client"
    " lost the race for the name."
)


def _garbage_rule_of(case: Arguments, answer: list[int]) -> str:
    ledgers, named = case
    right = set(removable(ledgers, named))
    if wrong := set(answer) - right:
        if wrong & {ledger_id for _, ledger_id in named.values()}:
            return _IN_USE
        names = {ledger_id: name for ledger_id, name, _ in ledgers}
        first = min(wrong)
        if first not in names:
            return _UNKNOWN
        return _TOO_EARLY if names[first] in named else _UNNAMED
    missing = right - set(answer)
    is_older = any(i in missing and version < named[name][0] for i, name, version in ledgers)
    return _LEFT if is_older or not missing else _LOST_RACE


@exercise(
    "build_on_it.garbage",
    hints=(
        "For each ledger, look up the version and the ledger that its name points to. The ledger's"
        " own version can be newer, older or the same.",
        "If it is newer, the snapshot may still be being written. If it is older, no reader will"
        " read it. If it is the same, is it the ledger that the name points to?",
        "A ledger is garbage if name in named, ledger_id != named[name][1], and version <="
        " named[name][0].",
    ),
    like=removable,
    cases=Cases(
        generated.ledgers_of_snapshots,
        removable,
        _garbage_rule_of,
        comparable=in_any_order,
        preferred_rules=(_TOO_EARLY, _UNNAMED, _IN_USE, _UNKNOWN, _LEFT, _LOST_RACE),
    ),
)
def garbage(learner: Removable) -> str:
    """Snapshots that are garbage are deleted, and snapshots that are being written are kept."""

    def judged(ledgers: list[Ledger], named: Named) -> list[int]:
        answer = learner(ledgers, named)
        if len(answer) > len(ledgers):
            raise Refused(
                f"There are only {len(ledgers)} ledgers, but your function returned {len(answer)}"
                " ids."
            )
        return answer

    trial: Callable[[list[Ledger], Named], list[int]] = ClusterTrial(judged)
    ran = stories.snapshots(trial)
    failed = {name: error for name, error in ran.stored.items() if "NoSuchLedger" in repr(error)}
    deleted = [e for e in ran.trace.events if e.kind == "ledger.deleted"]
    if failed or ran.read is None:
        name = next(iter(failed), "look")
        reason = f"{name} failed because its ledger was deleted"
        raise Refused(_TOO_EARLY, counterexample_at(ran.trace, deleted[0].seq, reason))
    if len(ran.left) > 1:
        reason = f"the ledgers {list(ran.left)} are left, but there is only one name"
        raise Refused(_LEFT, counterexample_at(ran.trace, ran.trace.events[-1].seq, reason))
    return f"{len(ran.collected)} ledgers were deleted while four clients stored snapshots."
