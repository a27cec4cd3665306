"""Tests the ensemble history: which moments it contains, and that each matches the run."""

from itertools import pairwise

import pytest

from labkit.system.trace.cluster_state import fold
from labkit.views.widgets.ensemble_history import ROWS, STILL_ROWS, EnsembleHistory
from labkit.views.widgets.ensemble_history.moments import HistoryMoment, history_of
from labkit.worlds.sim.run import run
from tests.views.widgets.films import titles_of, words_in
from tests.views.widgets.histories import recovered_with_a_deferred_change, repaired, two_crashes
from tests.views.widgets.scripted import LEDGER, Script, everything_at_once, two_ledgers
from tests.views.widgets.test_all_views import placed


def moments(view: EnsembleHistory) -> list[HistoryMoment]:
    return history_of(view.run.events, view.ledger_id).moments


def stored(moment: HistoryMoment) -> list[tuple[int, int, str]]:
    return [
        (each.first, each.last, " ".join(bookie.name for bookie in each.bookies))
        for each in moment.segments
    ]


def test_each_change_of_a_writer_is_a_moment_and_begins_a_fragment() -> None:
    found = moments(EnsembleHistory(run(two_crashes())))
    assert [moment.kind for moment in found] == [
        *("created", "down", "change", "down", "change", "closed")
    ]
    assert stored(found[2]) == [(0, 3, "b0 b1 b2"), (4, 4, "b0 b3 b2")]
    assert stored(found[-1]) == [*((0, 3, "b0 b1 b2"), (4, 8, "b0 b3 b2"), (9, 11, "b4 b3 b2"))]
    new = [bookie.name for s in found[4].segments for bookie in s.bookies if bookie.is_new]
    assert new == ["b4"]
    down = {
        bookie.name for s in found[-1].segments for bookie in s.bookies if bookie.state == "down"
    }
    assert down == {"b0", "b1"}


def test_a_repair_changes_a_fragment_and_leaves_the_others() -> None:
    found = moments(EnsembleHistory(repaired()))
    marked = next(m for m in found if m.kind == "marked")
    assert "considers b1 lost" in marked.words
    repairs = [moment for moment in found if moment.kind == "repaired"]
    assert stored(repairs[0])[1:] == stored(marked)[1:]
    final = found[-1]
    assert stored(final)[0] == (0, 3, "b3 b4 b2")
    bookies = [bookie for segment in final.segments for bookie in segment.bookies]
    assert all(b.durable == b.expected and b.state == "up" for b in bookies)


def test_a_new_bookie_holds_nothing_at_first() -> None:
    change = moments(EnsembleHistory(run(two_crashes())))[2]
    b3 = change.segments[1].bookies[1]
    assert (b3.name, b3.durable, b3.expected, b3.is_new) == ("b3", (), (4,), True)


def test_what_a_recovery_has_not_published_is_shown_as_deferred() -> None:
    found = moments(EnsembleHistory(recovered_with_a_deferred_change()))
    deferred = next(moment for moment in found if moment.kind == "deferred")
    assert deferred.segments[-1].is_deferred
    assert "not in the metadata yet" in deferred.words
    assert not any(segment.is_deferred for segment in found[-1].segments)
    assert found[-1].is_closed


@pytest.mark.slow
def test_the_last_moment_is_the_fold_of_the_whole_log() -> None:
    log = everything_at_once()
    ledger = fold(log.events).ledgers[LEDGER]
    last = moments(EnsembleHistory(log))[-1]
    assert [(s.first, tuple(bookie.name for bookie in s.bookies)) for s in last.segments] == [
        (segment.first_entry, segment.ensemble) for segment in ledger.segments
    ]


def test_the_newest_ledger_is_shown_unless_another_is_named() -> None:
    log = two_ledgers()
    assert "ledger 8" in repr(EnsembleHistory(log))
    assert "ledger 7, 2 moments; closed" in repr(EnsembleHistory(log.events, ledger=7))


def test_a_ledger_that_the_events_do_not_create_is_refused() -> None:
    with pytest.raises(ValueError, match="no event creates ledger 99; the trace must include"):
        EnsembleHistory(two_ledgers(), ledger=99)
    with pytest.raises(ValueError, match="no event creates a ledger"):
        EnsembleHistory([])


def test_the_picture_has_moments_and_each_entry_on_each_of_its_bookies() -> None:
    view = EnsembleHistory(run(two_crashes()))
    words = words_in(view.svg())
    for line in ("4 to 8", "created by w: 3 bookies", "b1 is down", "b1 ✕"):
        assert line in words
    for line in ("from entry 4 on, b3 replaces b1", "closed by w at entry 11"):
        assert line in words
    titles = titles_of(view.scene())
    assert "b4, entries 9 to 11: 3 of 3 copies; up" in titles
    assert "entry 4: missing" in titles
    assert "entry 4: durable" in titles


def test_an_entry_stands_at_the_same_place_in_every_moment() -> None:
    places: dict[str, set[float]] = {}
    for mark, x, _ in placed(EnsembleHistory(repaired()).scene()):
        kin = str(mark.attributes.get("data-kin", ""))
        if kin.startswith("e"):
            places.setdefault(kin, set()).add(x)
    assert len(places) == 12
    assert all(len(found) == 1 for found in places.values())


def test_the_last_moment_is_drawn_as_it_is_now() -> None:
    view = EnsembleHistory(run(two_crashes()))
    held = [
        sum(title.endswith(": durable") for title in titles_of(beat.scene))
        for beat in view.reel.beats
    ]
    assert held[0] == 0
    assert sum(later > earlier for earlier, later in pairwise(held)) > 10


@pytest.mark.slow
def test_of_a_long_history_the_last_moments_are_drawn() -> None:
    script = Script(4, 3, 3, 2)
    for entry in range(30):
        script.add(entry)
        script.ensemble = script.names[entry % 2 : entry % 2 + 3]
        ensemble = (*script.ensemble,)
        script.record("writer", "ensemble.set", LEDGER, entry + 1, ensemble=ensemble)
    view = EnsembleHistory(script.settled())
    count = len(moments(view))
    assert f"⋮ {count - STILL_ROWS} earlier" in words_in(view.svg())
    shown = [mark.text for mark, _, _ in placed(view.scene())]
    assert f"⋮ {count - ROWS} earlier" in shown


def test_a_trace_that_ends_before_the_first_ensemble_has_a_picture() -> None:
    events = two_ledgers().events
    created = next(event.seq for event in events if event.kind == "ledger.created")
    view = EnsembleHistory(events[: created + 1])
    assert "ledger 7 does not exist yet" in repr(view)
    assert "Ledger 7: where it is stored" in words_in(view.svg())


def test_a_ledger_that_only_the_final_check_creates_is_not_the_newest() -> None:
    events = list(run(two_crashes()).events)
    created = next(event for event in events if event.kind == "ledger.created")
    again = created._replace(seq=len(events), time_us=events[-1].time_us, ledger=created.ledger + 1)
    assert f"ledger {created.ledger}," in repr(EnsembleHistory([*events, again]))


def test_the_still_picture_shows_the_moment_asked_for() -> None:
    trace = run(two_crashes())
    change = [event.seq for event in trace.events if event.kind == "ensemble.set"][1]
    words = words_in(EnsembleHistory(trace, at=change).svg())
    assert "from entry 4 on, b3 replaces b1" in words
    assert "closed by w" not in words
