"""The fold in the browser is the fold in Python."""

import json
from collections.abc import Iterator
from dataclasses import asdict

import pytest
from playwright.sync_api import Browser, Page

from labkit.trace.events import Event
from labkit.trace.export import to_columns
from labkit.trace.fold import fold
from labkit.trace.sentence import SENTENCES
from labkit.widgets.cluster_view import ClusterView
from tests.widgets.scripted import SCRIPTS

pytestmark = pytest.mark.browser

_STATES = """async ([source, columns, indexes, options]) => {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const { stateAt } = await import(url);
    return indexes.map((index) => JSON.stringify(stateAt(columns, index, options)));
}"""


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


def in_javascript(page: Page, events: list[Event], indexes: list[int]) -> list[object]:
    options = {"bookies": ["bookie-10"], "sentences": SENTENCES}
    states = page.evaluate(_STATES, [ClusterView._esm, to_columns(events), indexes, options])
    return [json.loads(state) for state in states]


def in_python(events: list[Event], index: int) -> object:
    return json.loads(json.dumps(asdict(fold(events, index, bookies=["bookie-10"]))))


@pytest.mark.parametrize("script", SCRIPTS)
def test_fold_in_javascript_equals_fold_in_python(page: Page, script: str) -> None:
    events = SCRIPTS[script]().events
    indexes = [*range(0, len(events), 7), len(events)]
    for index, state in zip(indexes, in_javascript(page, events, indexes), strict=True):
        assert state == in_python(events, index)


def test_fold_in_javascript_equals_fold_in_python_on_rare_events(page: Page) -> None:
    rows = [
        ("bookie-2", "memtable.put", 7, 0, ""),
        ("writer", "add.failed", 7, 0, "bookie-2"),
        ("writer", "add.failed", 7, 1, "bookie-2"),
        ("writer", "add.sent", 7, 1, "bookie-2"),
        ("bookie-2", "journal.appended", 7, -1, ""),
        ("bookie-3", "journal.synced", 7, -1, ""),
        ("bookie-2", "ledger.fenced", 7, -1, ""),
        ("bookie-2", "node.killed", -1, -1, ""),
        ("writer", "add.sent", 7, 0, "bookie-2"),
        ("reader", "read.sent", 7, 0, "bookie-2"),
        ("reader", "read.failed", 7, 0, "bookie-2"),
        ("bookie-3", "read.served", 7, 0, ""),
        ("bookie-2", "entry_log.written", 7, 2, ""),
        ("bookie-2", "memtable.flushed", -1, -1, ""),
        ("writer", "ledger.closed", 7, -1, ""),
        ("writer", "ledger.rolled", 8, -1, ""),
    ]
    events = [
        Event(seq, seq * 10, node, kind, -1, ledger, entry, peer)
        for seq, (node, kind, ledger, entry, peer) in enumerate(rows)
    ]
    indexes = list(range(len(events) + 1))
    for index, state in zip(indexes, in_javascript(page, events, indexes), strict=True):
        assert state == in_python(events, index)


def test_fold_in_javascript_equals_fold_in_python_when_a_middle_fragment_is_repaired(
    page: Page,
) -> None:
    rows = [(0, "a,b,c"), (4, "a,d,c"), (9, "a,d,e"), (9, "a,d,f"), (4, "a,g,c"), (0, "h,b,c")]
    events = [
        Event(seq, seq * 10, "w", "ensemble.set", -1, 7, first, note=note)
        for seq, (first, note) in enumerate(rows)
    ]
    indexes = list(range(len(events) + 1))
    for index, state in zip(indexes, in_javascript(page, events, indexes), strict=True):
        assert state == in_python(events, index)
