"""Tests which event of a beat is described, and how."""

from labkit.system.trace.events import Event
from labkit.views.widgets.beat_words import words_of
from labkit.views.widgets.cluster import ClusterView
from tests.views.widgets.scripted import Script, ScriptedCluster


def event(kind: str, **columns: object) -> Event:
    return Event(0, 0, "w", kind)._replace(**columns)  # type: ignore[arg-type]


MARK = event("mark.persisted", node="b1", file="1.txn", offset=4096)
KILL = event("node.killed", node="b2")
LAC = event("lac.advanced", ledger=7, entry=3)
SILENCE = event(
    "add.failed", ledger=7, entry=4, peer="b1", error="BKBookieHandleNotAvailableException"
)


def test_what_the_reader_did_comes_before_the_protocol_and_background_work_comes_last() -> None:
    assert words_of([KILL, LAC, MARK]).startswith("b2 was killed")
    assert words_of([LAC, MARK]).startswith("entry 3 of ledger 7 is confirmed")
    assert words_of([MARK]).startswith("b1 advanced LastLogMark")


def test_a_new_ledger_is_described_without_the_letters_for_its_quorums() -> None:
    created = event("ledger.created", ledger=7, ensemble_size=4, write_quorum=3, ack_quorum=2)
    assert words_of([created]) == "w created ledger 7: 4 bookies · 3 copies · 2 acks"
    deferred = created._replace(deferred_sync=True)
    assert words_of([deferred]).endswith("2 acks, deferred sync")


def test_a_missing_response_is_told_in_words_that_a_newcomer_can_read() -> None:
    assert words_of([SILENCE]) == "w gets no response from b1 about entry 4"
    more = SILENCE._replace(entry=6)
    assert words_of([SILENCE, more]) == "w gets no response from b1 about entries 4 to 6"


def test_adds_that_fenced_bookies_reject_are_told_in_one_sentence() -> None:
    error = "BKLedgerFencedException"
    rejected = [
        event("add.failed", ledger=7, entry=5, peer=peer, error=error) for peer in ("b2", "b0")
    ]
    assert words_of(rejected) == "the writer w cannot add entry 5: fenced on b0, b2"


def test_the_last_sentence_of_a_run_says_what_was_finished() -> None:
    ended = event("step.ended", step="write 8 entries to ledger 0", detail="done")
    assert words_of([ended]) == "w has finished its work: write 8 entries to ledger 0"


async def test_a_live_view_keeps_the_words_about_a_kill_when_background_work_follows() -> None:
    script = Script(3, 3, 2, 2)
    cluster = ScriptedCluster(script)
    view = ClusterView(cluster)
    try:
        cluster.add(3)
        script.kill("b1")
        script.record("b0", "mark.persisted", file="1.txn", offset=4096)
        script.log.settle()
        view.send_more()
        assert view.reel.beats[-1].words.startswith("b1 was killed")
    finally:
        view.close()
