"""Tests the descriptions of exit codes."""

import pytest

from labkit.worlds.live.host.exit_codes import EXIT_DISK_FAILED, describe_exit


@pytest.mark.parametrize(
    ("code", "description"),
    [
        (1, "exited with code 1"),
        (EXIT_DISK_FAILED, "exited with code 5 (its disk or network failed)"),
        (-9, "was terminated by SIGKILL"),
        (-40, "was terminated by signal 40"),
    ],
)
def test_every_exit_code_has_a_description(code: int, description: str) -> None:
    assert describe_exit(code) == description
