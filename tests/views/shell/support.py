"""Helpers that the shell tests share: bookie folders and the command line."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from labkit.cli.main import main
from labkit.views.shell.folders import BookieFolders, open_folders
from tests.system.storage.support import GOLDEN

CLEAN, ROLLED = GOLDEN / "sorted-clean-shutdown", GOLDEN / "rolled-logs-with-ledgers-map"
V4, V6 = GOLDEN / "journal-v4-crash", GOLDEN / "journal-v6-crash"
JOURNAL_ID = 0x1A1FD4B7370

Run = Callable[..., tuple[int, str, str]]
"""Runs `labkit shell`; returns its exit status, standard output and standard error."""

Ask = Callable[..., Awaitable[tuple[int, str, str]]]
"""The same for verbs about a cluster; the first argument is the address of its ZooKeeper."""


def folders_of(root: Path) -> BookieFolders:
    """Open the bookie whose journal directory is `j` and whose ledger directory is `l`."""
    return open_folders([root / "j"], [root / "l"])


def runner(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(root: Path, *arguments: str) -> tuple[int, str, str]:
        where = ["--journal", str(root / "j"), "--ledgers", str(root / "l")]
        code = main(["shell", *where, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def failure(result: tuple[int, str, str]) -> str:
    """Return what a verb that must fail printed on standard error."""
    code, _, errors = result
    assert code == 1
    return errors


def json_lines(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
