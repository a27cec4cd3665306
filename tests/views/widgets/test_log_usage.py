from xml.etree import ElementTree

from labkit.views.widgets.drawing.scene import Mark
from labkit.views.widgets.log_usage import LogBar, LogUsage

BARS = [LogBar("0.log", {5: 300, 6: 100}), LogBar("a.log", {6: 200}), LogBar("b.log", {})]


def test_words_say_what_lives_in_each_log_and_leave_out_logs_without_entries() -> None:
    assert repr(LogUsage(BARS, {5})).splitlines() == [
        "2 logs, 600 bytes of entries",
        "  0.log: ledger 5 300 bytes, ledger 6 100 bytes (garbage); 75% live",
        "  a.log: ledger 6 200 bytes (garbage); 0% live",
    ]


def test_only_garbage_is_hatched() -> None:
    def hatched(mark: Mark) -> int:
        return (mark.key == "garbage") + sum(map(hatched, mark.children))

    assert hatched(LogUsage(BARS, {5}).scene()) == 2 + 1  # two in the bars, one in the legend
    assert hatched(LogUsage(BARS, {5, 6}).scene()) == 0


def test_the_picture_is_one_document_and_always_the_same() -> None:
    first, second = (LogUsage(BARS, {6}).svg() for _ in range(2))
    assert first == second
    assert ElementTree.fromstring(first).tag == "{http://www.w3.org/2000/svg}svg"


def test_a_bookie_without_entries_has_a_picture_too() -> None:
    assert "no log contains an entry" in LogUsage([], set()).svg()
