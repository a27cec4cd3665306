"""Tests that a check in a forked copy of the process leaves the original alone."""

import gc
import os
import pickle
import signal
from pathlib import Path

import pytest

from labkit.course.checking.forked_check import CAN_FORK, Reason, Stopped, in_forked_copy


class _NotesItsEnd:
    """An object that only the garbage collector can destroy, because it refers to itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.itself = self

    def __del__(self) -> None:
        with self.path.open("a") as file:
            file.write(f"{os.getpid()}\n")


@pytest.mark.skipif(not CAN_FORK, reason="this system has no fork")
def test_a_copy_does_not_destroy_what_the_original_has_created(tmp_path: Path) -> None:
    path = tmp_path / "destroyed_by"
    gc.disable()
    try:
        _NotesItsEnd(path)
        assert in_forked_copy(lambda _: gc.collect() >= 0, None, 60.0) is True
    finally:
        gc.enable()
    gc.collect()
    assert path.read_text() == f"{os.getpid()}\n"


@pytest.mark.skipif(not CAN_FORK, reason="this system has no fork")
def test_a_copy_that_is_killed_while_it_sends_its_result_has_no_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = os.getpid()

    def only_half(value: object) -> bytes:
        data = dumps(value)
        return data[: len(data) // 2]

    def kill_copy(status: int) -> None:
        if os.getpid() != original:
            os.kill(os.getpid(), signal.SIGKILL)

    dumps = pickle.dumps
    monkeypatch.setattr(pickle, "dumps", only_half)
    monkeypatch.setattr(os, "_exit", kill_copy)
    assert in_forked_copy(str, "learner", 60.0) == Stopped(Reason.ENDED, is_killed=True)
