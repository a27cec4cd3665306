"""Tests the view of a bookie's inside: what the picture contains and how the user can act."""

import pytest

from labkit.course.runs.bookie.one_bookie import OneBookie
from labkit.system.trace.cluster_state import fold_bookie
from labkit.system.trace.events import Event
from labkit.views.widgets.bookie_inside import BookieInside
from labkit.views.widgets.bookie_inside.bands import MAX_ITEMS, PLACES, STEP, Band, bands_of
from tests.until import until
from tests.views.widgets.films import crashed, marks_of, scenes_of, titles_of, words_in
from tests.views.widgets.lives import PAGE_SIZE, whole_life
from tests.views.widgets.scripted import Script, ScriptedCluster


@pytest.fixture(scope="module")
def bookie() -> OneBookie:
    return whole_life()


def bands(bookie: OneBookie, kind: str | None = None, which: int = 0) -> dict[str, Band]:
    """Return the bands keyed by title, as they are right after the event of that kind, or at the
    end.
    """
    events = bookie.trace.events
    places = [event.seq + 1 for event in events if event.kind == kind]
    state = fold_bookie(events, "b0", places[which] if kind else None)
    return {band.title: band for band in bands_of(state, PAGE_SIZE)}


def line(band: Band) -> str:
    """Format a band as a single line of text."""
    signs = {"pad": "░", "mark": "▼", "head": "[", "tail": "…"}
    return " ".join(
        signs.get(item.kind, item.label) + (f":{item.look}" if item.look else "")
        for item in band.items
    )


def test_every_sync_ends_in_padding_and_the_mark_stands_where_replay_starts(
    bookie: OneBookie,
) -> None:
    assert line(bands(bookie, "node.killed")["1.txn"]) == (
        "[ 7 key:done 7/0:done 8 key:done 8/0:done ░ 7/1:done 8/4:done ░"
        " ▼ 8/5:synced 7/2:synced 7 LAC:synced ░ 7/3:unsure 9 key:unsure 9 fence:unsure …"
    )
    after = line(bands(bookie, "node.started", -1)["1.txn"])
    assert after.endswith("░ ▼ 7/3:lost 9 key:lost 9 fence:lost …")


def test_the_sync_of_a_fence_alone_is_a_separate_group(bookie: OneBookie) -> None:
    assert line(bands(bookie)["2.txn"]) == (
        "[ 7 key:done 7/3:done 7/70:done ░ 9 key:done 9 fence:done ░ ▼ 8 key:written 8/6:written …"
    )


def test_a_record_other_than_an_entry_says_what_it_is_and_where(bookie: OneBookie) -> None:
    special = [item for item in bands(bookie)["2.txn"].items if item.kind == "special"]
    assert [item.words.partition("; ")[0] for item in special] == [
        "master key of ledger 7, from which replay recreates the ledger",
        "master key of ledger 9, from which replay recreates the ledger",
        "fence of ledger 9: from here on, only recovery may add entries",
        "master key of ledger 8, from which replay recreates the ledger",
    ]
    assert special[0].words.endswith(
        "record in 2.txn at 512, before LastLogMark, so replay skips it"
    )


def test_replay_fills_the_memtable_from_the_journal(bookie: OneBookie) -> None:
    assert line(bands(bookie, "journal.replayed")["memtable"]) == "7/2:replayed 8/5:replayed"


def test_an_index_says_where_each_entry_lies_page_by_page(bookie: OneBookie) -> None:
    index = bands(bookie)["7.idx"]
    assert line(index) == "page 0 0:slot 1:slot 2:slot 3:slot page 1 70:slot"
    assert [item.note for item in index.items if item.look == "slot"][:3] == [
        *("0:1028", "0:1088", "2:1028"),
    ]
    assert "slot at 1584:" in index.items[-1].words


def test_a_slot_of_an_entry_that_is_elsewhere_is_empty(bookie: OneBookie) -> None:
    assert line(bands(bookie, "memtable.flushed", 1)["8.idx"]) == (
        "page 0 0:slot 1:empty 2:empty 3:empty 4:slot"
    )


def test_a_tailing_read_lights_the_memtable_a_catch_up_read_index_and_entry_log(
    bookie: OneBookie,
) -> None:
    def found(which: int) -> list[str]:
        now = bands(bookie, "read.served", which)
        return [title for title, band in now.items() if any(item.found for item in band.items)]

    assert found(0) == ["memtable"]
    assert found(1) == ["0.log", "7.idx"]


def test_of_a_long_band_the_last_entries_are_drawn_and_of_the_memtable_the_first() -> None:
    bookie, firsts = OneBookie(), set[str]()
    for entry in range(100):
        bookie.add((7, entry))
        firsts.add(bands(bookie)["1.txn"].items[1].label)
    # The band does not move with each event.
    assert len(firsts) <= 1 + 100 // STEP
    bookie.commit()
    now = bands(bookie)
    memory, journal = now["memtable"].items, now["1.txn"].items
    assert [len(memory), memory[-1].label] == [MAX_ITEMS + 1, "+52"]
    assert journal[0].label == "… 60"
    drawn = [item.entry for item in journal if item.kind == "entry"]
    assert drawn == list(range(59, 100))


def test_every_place_of_an_entry_is_described_in_words(bookie: OneBookie) -> None:
    for kind in ("node.killed", "journal.replayed", "entry_log.written", "mark.persisted"):
        for band in bands(bookie, kind).values():
            assert all(item.words for item in band.items if item.kind == "entry")
    assert all(
        "{" not in words.format_map(dict.fromkeys(("file", "offset", "slot", "ledger"), 1))
        for words in PLACES.values()
    )


def test_the_view_stands_at_the_moment_asked_for(bookie: OneBookie) -> None:
    events = bookie.trace.events
    crash = next(event.seq for event in events if event.kind == "node.killed")
    assert repr(BookieInside(bookie.trace, upto=crash + 1)) == (
        "b0, down: 3 in the memtable, 12 in the journal, 4 in entry logs, LastLogMark 1.txn 1536"
    )
    assert repr(BookieInside(bookie.trace)).startswith("b0, up: 1 in the memtable")


def test_all_places_of_an_entry_have_the_same_kin(bookie: OneBookie) -> None:
    scene = BookieInside(bookie.trace).scene()
    places = [mark for mark in marks_of(scene) if mark.attributes.get("data-kin") == "e7-0"]
    titles = [mark.children[0].text.partition(": ")[2] for mark in places]
    assert titles == [
        "record in 1.txn at 556, before LastLogMark, so replay skips it",
        "in 0.log at 1028",
        "index slot at 1024: the entry is in 0.log at 1028",
    ]


def test_a_picture_is_as_high_at_every_moment(bookie: OneBookie) -> None:
    film = BookieInside(bookie.trace, page_size=PAGE_SIZE).film
    assert len({scene.attributes["height"] for scene in scenes_of(film)}) == 1


def test_replays_and_steps_of_lastlogmark_have_signs_on_the_bar(bookie: OneBookie) -> None:
    signs = [sign[1] for sign in BookieInside(bookie.trace).film["signs"]]
    assert signs == ["▼", "◆", "↺", "▼", "▲", "▼"]


def test_another_bookie_of_a_run_can_be_chosen() -> None:
    view = BookieInside(crashed())
    (choice,) = view.controls
    assert [name for name, _ in choice["options"]] == ["b0", "b1", "b2", "b3"]
    assert view.bookie == choice["value"] == "b0"
    view.received(None, {"set": "bookie", "value": "b1"}, None)
    assert view.bookie == view.controls[0]["value"] == "b1"
    assert "b1: down" in titles_of(view.scene())
    assert BookieInside(crashed(), "b2").controls == []


async def test_a_running_bookie_is_followed() -> None:
    cluster = ScriptedCluster(Script(5, 4, 3, 2))
    view = BookieInside(cluster, "b1")
    cluster.add(3)
    stored = "entry 1 of ledger 7: in the memtable"
    await until(lambda: any(stored in each for each in titles_of(view.scene())))
    view.close()


def test_a_flush_moves_entries_from_the_memtable_to_the_entry_log_and_then_the_mark() -> None:
    view = BookieInside(whole_life().trace, page_size=PAGE_SIZE)
    bands = [
        {mark.key: mark for mark in beat.scene.children if "transform" in mark.attributes}
        for beat in view.reel.beats
    ]
    at = next(n for n, each in enumerate(bands) if "0.log" in each)
    y = {
        name: float(str(bands[at][name].attributes["transform"]).split()[1].rstrip(")"))
        for name in ("memtable", "0.log")
    }
    slid = [each for each in bands[at]["0.log"].children if "data-came" in each.attributes]
    assert slid
    for mark in slid:
        _, dy = str(mark.attributes["data-came"]).split()
        assert y["0.log"] + float(dy) < y["memtable"] + 60
    keys = [mark.key for each in bands for band in each.values() for mark in band.children]
    assert keys.count("mark") > 1


def test_entries_that_the_bookie_has_dropped_are_drawn_as_garbage_without_an_index() -> None:
    bookie = OneBookie()
    bookie.add((7, 0), (8, 0))
    bookie.commit()
    bookie.flush()
    events = list(bookie.trace.events)
    collected = Event(len(events), events[-1].time_us + 1, "b0", "ledger.collected", ledger=7)
    view = BookieInside([*events, collected])
    titles = titles_of(view.scene())
    assert any("garbage, because this bookie has dropped" in title for title in titles)
    words = words_in(view.svg())
    assert ("index of ledger 7" in words, "index of ledger 8" in words) == (False, True)


def test_the_bookies_to_choose_from_are_in_the_order_of_their_numbers() -> None:
    script = Script(12, 12, 12, 2)
    script.add(0)
    (choice,) = BookieInside(script.settled()).controls
    assert [name for name, _ in choice["options"]] == [f"b{at}" for at in range(12)]


def test_records_of_two_ledgers_at_the_same_offset_are_both_drawn() -> None:
    """A journal file that was lost in a crash is written again from its start."""
    appended = Event(0, 0, "b0", "journal.key_appended", ledger=7, file="1.txn", offset=512)
    events = [
        Event(0, 0, "b0", "memtable.put", ledger=7, entry=0),
        appended._replace(seq=1, time_us=1),
        Event(2, 2, "b0", "node.killed", detail="lost"),
        appended._replace(seq=3, time_us=3, ledger=8),
    ]
    scene = BookieInside(events).scene()
    (journal,) = (mark for mark in scene.children if mark.key == "1.txn")
    keys = [mark.key for mark in journal.children]
    assert len(keys) == len(set(keys))
    assert [title.partition(";")[0] for title in titles_of(journal) if "master key" in title] == [
        f"master key of ledger {ledger}, from which replay recreates the ledger"
        for ledger in (7, 8)
    ]
