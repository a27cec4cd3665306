"""Each golden script happens again as it is written down."""

from pathlib import Path

import pytest

from tests.golden.script import Script

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_conversation_is_as_it_is_written_down(
    path: Path, request: pytest.FixtureRequest
) -> None:
    script = Script.read(path)
    now = script.record()
    if request.config.getoption("--record", default=False):
        path.write_text(now.text)
    else:
        assert now.recorded.splitlines() == script.recorded.splitlines()


def test_there_is_a_script_for_each_conversation() -> None:
    assert [path.stem for path in SCRIPTS] == [
        "auditor_lost_in_mid_round",
        "bookie_lost_and_repaired",
        "create_add_close",
        "ensemble_change",
        "fence_and_recover",
        "lost_acknowledgement",
        "recovery_interrupted_after_fencing",
        "recovery_interrupted_after_the_mark",
        "recovery_interrupted_before_the_close",
        "recovery_interrupted_while_writing_back",
        "slow_bookie",
        "two_recoverers",
        "zookeeper_session_lost",
    ]
