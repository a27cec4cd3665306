"""A server's log of what its peers do wrong."""

import sys
from pathlib import Path

import pytest

from labkit.live.peer_log import LINES, PERIOD_S, PeerLog


def test_many_mistakes_are_few_lines_and_their_number() -> None:
    now, lines = [0.0], list[str]()
    log = PeerLog("broker-1", lambda: now[0], lines.append)
    for number in range(1000):
        log(f"mistake {number}")
    assert lines == [f"labkit: broker-1: mistake {number}" for number in range(LINES)]
    now[0] = PERIOD_S
    log("another")
    assert lines[LINES:] == [
        f"labkit: broker-1: {1000 - LINES} more lines of this kind",
        "labkit: broker-1: another",
    ]


def test_a_mistake_is_one_short_line_whatever_it_quotes() -> None:
    lines = list[str]()
    PeerLog("b", lambda: 0.0, lines.append)("name\nlabkit: b: forged \x1b[2J" + "x" * 10_000)
    [line] = lines
    assert line.startswith("labkit: b: name\\nlabkit: b: forged \\x1b[2Jxxx")
    assert "\n" not in line
    assert len(line) < 1000


def test_a_log_on_a_full_disk_does_not_disturb_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        PeerLog("broker-1", lambda: 0.0)("a mistake")
        monkeypatch.undo()
        full.buffer.raw.close()  # Closing the file would write the line again.
