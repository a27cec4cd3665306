"""Test that each check distinguishes correct runs from broken ones and reports when it cannot
decide.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.check import CHECKS, EPILOGUE, Outcome, broken, check_all
from labkit.system.check.facts import Facts
from labkit.system.check.judge import Judge
from labkit.system.check.promise import Check
from labkit.system.check.promises.durability import AcknowledgedIsDurable
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on
from labkit.system.trace.log import TraceLog
from tests.system.check.commands import judged_runs
from tests.system.check.story import B0, B1, R, Story

RUNS = [*judged_runs()]


@pytest.mark.promise("Every check accepts correct runs and rejects faulty ones")
@pytest.mark.parametrize("outcome", Outcome)
def test_every_check_has_runs_of_each_outcome(outcome: Outcome) -> None:
    assert {run.check for run in RUNS if run.outcome is outcome} == {*CHECKS}


def test_no_two_checks_have_one_name() -> None:
    names = [check.__name__ for check in CHECKS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_promise_is_one_sentence(check: type[Check]) -> None:
    promise = check.promise
    assert promise.endswith(".")
    assert ". " not in promise
    assert promise.replace(" ", "") in "".join((check.__doc__ or "").split())


def test_a_kind_that_no_event_has_is_rejected() -> None:
    with pytest.raises(LookupError, match=r"add\.sended"):
        on("add.sended")


def test_nothing_breaks_in_an_empty_trace() -> None:
    assert {verdict.outcome for verdict in check_all([])} == {Outcome.UNKNOWN}


def test_a_whole_run_keeps_every_promise() -> None:
    run = Story().add(0, 1).fence(B0, B1, lac=0).push(1, R).read(1, B0, node=R)
    run.send(1, *run.ensemble, node=R).ack(1, *run.ensemble, node=R).confirm(1, R).end(1)
    run.epilogue(0, 1)
    assert broken(check_all(run.events)) == []


def test_verdicts_come_in_the_order_of_the_checks() -> None:
    names = [verdict.name for verdict in check_all(Story().add(0, 1).events)]
    assert names == [check.__name__ for check in CHECKS]


def test_asking_twice_for_the_verdicts_changes_nothing() -> None:
    for run in RUNS:
        judge = Judge(run.story.events, [run.check], run.story.answers)
        for event in run.story.events:
            judge.handle(event)
        assert judge.verdicts() == judge.verdicts()


def test_only_the_first_violation_searches_the_trace_for_its_witnesses() -> None:
    events = Story().add(0, 1).events
    searches = list[int]()

    def witness() -> Event:
        searches.append(1)
        return events[0]

    check = AcknowledgedIsDurable(Facts(events))
    for _ in range(3):
        check.report_broken(events[-1], "it is lost", witness)
    verdict = check.verdict()
    assert (verdict.witnesses, verdict.tested_count, len(searches)) == ((0,), 3, 1)


def test_a_ledger_without_confirmed_entries_does_not_test_their_durability() -> None:
    verdict = Story().close(-1).verdict(AcknowledgedIsDurable)
    assert (verdict.outcome, verdict.tested_count) == (Outcome.UNKNOWN, 0)


def test_a_row_that_came_late_is_judged_at_its_time() -> None:
    rows = list(Story().add(0).rows)
    late = next(row for row in rows if row.kind == "journal.synced")
    rows.remove(late)
    log = TraceLog()
    log.add(rows)
    log.settle()
    log.add([late])
    log.settle()
    assert log.events[-1].kind == "journal.synced"
    assert broken(check_all(log)) == []


# Properties


@given(st.data())
def test_what_happens_on_other_nodes_meanwhile_changes_no_verdict(data: st.DataObject) -> None:
    """Every verdict stays the same if the steps of an entry on different bookies are reordered."""
    run = data.draw(st.sampled_from([run for run in RUNS if run.outcome is not Outcome.UNKNOWN]))
    events = run.story.events
    before = check_all(events, [run.check])[0].outcome
    order = list(events)
    for place in data.draw(st.lists(st.integers(0, max(0, len(order) - 2)), max_size=20)):
        one, other = order[place : place + 2]
        if _independent(one, other):
            order[place : place + 2] = other, one
    assert check_all(_renumbered(order), [run.check])[0].outcome is before


@given(st.data())
def test_what_is_not_seen_is_never_taken_for_broken(data: st.DataObject) -> None:
    """A trace that ends early could also come from a correct run."""
    run = data.draw(st.sampled_from([run for run in RUNS if run.outcome is Outcome.VALID]))
    events = run.story.events
    upto = data.draw(st.integers(0, len(events)))
    before_the_end = [event for event in events[:upto] if event.node != EPILOGUE]
    assert broken(check_all(before_the_end, [run.check])) == []


@given(st.data())
def test_node_names_and_ledger_ids_do_not_matter(data: st.DataObject) -> None:
    run = data.draw(st.sampled_from(RUNS))
    events = run.story.events
    shift = data.draw(st.integers(0, 2**40))
    moved = [
        event._replace(ledger=event.ledger + shift if event.ledger >= 0 else -1) for event in events
    ]
    assert check_all(moved, [run.check])[0].outcome is check_all(events, [run.check])[0].outcome


STORED = ("memtable.put", "journal.appended", "journal.synced")


def _independent(one: Event, other: Event) -> bool:
    """Return whether the steps happen on different bookies and neither caused the other."""
    on_bookies = one.kind in STORED and other.kind in STORED
    return on_bookies and one.node != other.node and other.cause != one.seq


def _renumbered(events: list[Event]) -> list[Event]:
    """Renumber the events in their new order, adjust their times, and keep their causes."""
    place = {event.seq: number for number, event in enumerate(events)} | {-1: -1}
    times = sorted(event.time_us for event in events)
    return [
        event._replace(seq=number, time_us=time_us, cause=place[event.cause])
        for number, (event, time_us) in enumerate(zip(events, times, strict=True))
    ]
