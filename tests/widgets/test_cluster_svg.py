"""The still picture."""

import re
from xml.etree import ElementTree

import pytest

from labkit.trace.fold import ClusterState, fold
from labkit.widgets.cluster_svg import MOST_ROWS, cluster_svg, newest_ledger, summary
from tests.widgets.scripted import LEDGER, SCRIPTS, Script, everything_at_once, two_ledgers

SVG = "{http://www.w3.org/2000/svg}"


def titles(state: ClusterState) -> list[str]:
    root = ElementTree.fromstring(cluster_svg(state))
    return [title.text or "" for title in root.findall(f"{SVG}g/{SVG}title")]


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_same_log_gives_the_same_picture(script: str) -> None:
    assert cluster_svg(fold(SCRIPTS[script]().events)) == cluster_svg(
        fold(SCRIPTS[script]().events)
    )


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_picture_is_well_formed_and_needs_nothing_from_elsewhere(script: str) -> None:
    svg = cluster_svg(fold(SCRIPTS[script]().events))
    ElementTree.fromstring(svg)
    assert set(re.findall(r"https?://[^'\"]*", svg)) == {"http://www.w3.org/2000/svg"}
    assert "href" not in svg


def test_a_cell_says_where_the_entry_lies() -> None:
    script = Script(3, 3, 2, 2)
    script.add(0)
    assert titles(fold(script.settled().events)) == [
        "entry 0 of ledger 7 on bookie-1: durable, journal 1a1fd4e0551.txn offset 512",
        "entry 0 of ledger 7 on bookie-2: durable, journal 1a1fd4e0551.txn offset 512",
    ]


def test_an_entry_on_a_dead_bookie_says_that_the_bookie_is_down() -> None:
    script = Script(1, 1, 1, 1)
    script.add(0)
    script.kill("bookie-1")
    assert titles(fold(script.settled().events))[0].endswith("(bookie-1 is down)")


def test_a_long_ledger_shows_its_first_and_its_last_rows() -> None:
    words = titles(fold(everything_at_once().events))
    rows = {int(re.match(r"entry (\d+)", title)[1]) for title in words}  # type: ignore[index]
    assert len(rows) == MOST_ROWS - 1
    assert {0, 4, 23, 40} <= rows
    assert not rows & set(range(5, 23))


def test_a_picture_shows_the_newest_ledger_unless_told_otherwise() -> None:
    state = fold(two_ledgers().events)
    assert newest_ledger(state) == 8
    assert "Ledger 8" in cluster_svg(state)
    assert "Ledger 7" in cluster_svg(state, LEDGER)


def test_words_from_outside_do_not_break_the_picture() -> None:
    script = Script(1, 1, 1, 1)
    script.push(0)
    script.record("writer", "add.failed", LEDGER, 0, peer="bookie-1", note="a < b & 'c'")
    ElementTree.fromstring(cluster_svg(fold(script.settled().events)))


def test_a_cluster_without_a_ledger_or_a_bookie_has_a_picture() -> None:
    for state in (fold([]), fold([], bookies=["bookie-1"])):
        ElementTree.fromstring(cluster_svg(state))
    assert summary(fold([]), -1) == "Cluster: 0 bookies, no ledger"


def test_the_summary_says_what_is_down() -> None:
    state = fold(everything_at_once().events)
    assert summary(state, LEDGER) == (
        "Cluster: 5 bookies, ledger 7 with entries up to 40, LAC 39, bookie-2 down, bookie-3 paused"
    )
