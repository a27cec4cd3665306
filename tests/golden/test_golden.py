"""Running each golden script again reproduces its recording."""

from pathlib import Path

import pytest

from tests.golden.frames import BYTES_WIDTH, Frame
from tests.golden.script import Script

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_conversation_is_as_it_is_written_down(
    path: Path, request: pytest.FixtureRequest
) -> None:
    script = Script.read(path)
    now = script.record()
    if request.config.getoption("record"):
        path.write_text(now.text)
    else:
        assert now.recorded.splitlines() == script.recorded.splitlines()


def test_script_shows_each_byte_of_a_frame_once() -> None:
    script = Script.read(Path(__file__).with_name("frames_of_a_ledger.txt"))
    frames = [each for each in script.happened() if isinstance(each, Frame)]
    assert frames
    for frame in frames:
        length = len(frame.body).to_bytes(4, "big")
        shown = " ".join(line[:BYTES_WIDTH].strip() for line in frame.lines())
        assert bytes.fromhex(shown) == length + frame.body


def test_there_is_a_script_for_each_conversation() -> None:
    assert [path.stem for path in SCRIPTS] == [
        "auditor_lost_in_mid_round",
        "bookie_lost_and_repaired",
        "create_add_close",
        "ensemble_change",
        "fence_and_recover",
        "frames_of_a_ledger",
        "lost_acknowledgement",
        "recovery_interrupted_after_fencing",
        "recovery_interrupted_after_the_mark",
        "recovery_interrupted_before_the_close",
        "recovery_interrupted_while_writing_back",
        "slow_bookie",
        "topic_goes_to_another_broker",
        "two_recoverers",
        "zookeeper_session_lost",
    ]
