"""The ensemble history: which moments it has, and that each tells the truth of its run."""

from xml.etree import ElementTree

import pytest

from labkit.sim.run import run
from labkit.trace.fold import fold
from labkit.widgets.ensemble_history import EnsembleHistory
from labkit.widgets.ensemble_moments import Moment
from labkit.widgets.ensemble_svg import FIRST_MOMENTS, MOST_MOMENTS, ensemble_svg
from tests.widgets.histories import recovered_with_a_deferred_change, repaired, two_crashes
from tests.widgets.scripted import LEDGER, Script, everything_at_once, two_ledgers


def stored(moment: Moment) -> list[tuple[int, int, str]]:
    return [
        (each.first, each.last, " ".join(place.bookie for place in each.places))
        for each in moment.stretches
    ]


def words_in(svg: str) -> str:
    root = ElementTree.fromstring(svg)
    return "\n".join(e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}text"))


def test_each_change_of_a_writer_is_a_moment_and_begins_a_fragment() -> None:
    moments = EnsembleHistory(run(two_crashes())).moments
    assert [moment.kind for moment in moments] == [
        *("created", "down", "change", "down", "change", "closed")
    ]
    assert stored(moments[2]) == [(0, 3, "b0 b1 b2"), (4, 4, "b0 b3 b2")]
    assert stored(moments[-1]) == [*((0, 3, "b0 b1 b2"), (4, 8, "b0 b3 b2"), (9, 11, "b4 b3 b2"))]
    new = [p.bookie for s in moments[4].stretches for p in s.places if p.is_new]
    assert new == ["b4"]
    down = {p.bookie for s in moments[-1].stretches for p in s.places if p.state == "down"}
    assert down == {"b0", "b1"}


def test_a_repair_changes_a_fragment_and_leaves_the_others() -> None:
    moments = EnsembleHistory(repaired()).moments
    marked = next(m for m in moments if m.kind == "marked")
    assert "takes b1 for lost" in marked.words
    repairs = [moment for moment in moments if moment.kind == "repaired"]
    assert stored(repairs[0])[1:] == stored(marked)[1:]
    final = moments[-1]
    assert stored(final)[0] == (0, 3, "b3 b4 b2")
    places = [place for stretch in final.stretches for place in stretch.places]
    assert all(place.held == place.due and place.state == "up" for place in places)


def test_a_new_bookie_holds_nothing_at_first() -> None:
    change = EnsembleHistory(run(two_crashes())).moments[2]
    b3 = change.stretches[1].places[1]
    assert (b3.bookie, b3.held, b3.due, b3.is_new) == ("b3", 0, 1, True)


def test_what_a_recovery_has_not_published_is_shown_as_deferred() -> None:
    moments = EnsembleHistory(recovered_with_a_deferred_change()).moments
    deferred = next(moment for moment in moments if moment.kind == "deferred")
    assert deferred.stretches[-1].is_deferred
    assert "not in the metadata yet" in deferred.words
    assert not any(stretch.is_deferred for stretch in moments[-1].stretches)
    assert moments[-1].is_closed


def test_the_last_moment_is_the_fold_of_the_whole_log() -> None:
    log = everything_at_once()
    ledger = fold(log.events).ledgers[LEDGER]
    last = EnsembleHistory(log).moments[-1]
    assert [(s.first, tuple(p.bookie for p in s.places)) for s in last.stretches] == [
        (segment.first_entry, segment.ensemble) for segment in ledger.segments
    ]


def test_the_newest_ledger_is_shown_unless_another_is_named() -> None:
    log = two_ledgers()
    assert "ledger 8" in repr(EnsembleHistory(log))
    assert "ledger 7, 2 moments; closed" in repr(EnsembleHistory(log.events, ledger=7))


def test_a_ledger_that_the_events_do_not_create_is_refused() -> None:
    with pytest.raises(ValueError, match="how ledger 99 was created"):
        EnsembleHistory(two_ledgers(), ledger=99)


def test_the_picture_tells_moments_bookies_and_missing_copies() -> None:
    words = words_in(EnsembleHistory(run(two_crashes())).svg())
    for line in (
        "entries 4 to 8",
        "created by w, E=3 Qw=3 Qa=2",
        "b1 is down",
        "b1 ✕",
        "from entry 4 on b3 for b1",
        "0/1",
        "closed by w at entry 11",
    ):
        assert line in words


def test_of_a_long_history_the_beginning_and_the_end_are_drawn() -> None:
    script = Script(4, 3, 3, 2)
    for entry in range(30):
        script.add(entry)
        script.ensemble = script.names[entry % 2 : entry % 2 + 3]
        note = ", ".join(script.ensemble)
        script.record("writer", "ensemble.set", LEDGER, entry + 1, note=note)
    moments = EnsembleHistory(script.settled()).moments
    words = words_in(ensemble_svg(moments, LEDGER))
    assert len(moments) > MOST_MOMENTS
    assert f"⋮ {len(moments) - MOST_MOMENTS + 1} moments" in words
    assert words.count(" ms\n") == MOST_MOMENTS - 1
    assert FIRST_MOMENTS < MOST_MOMENTS


def test_the_same_run_gives_the_same_picture() -> None:
    assert EnsembleHistory(repaired()).svg() == EnsembleHistory(repaired()).svg()
