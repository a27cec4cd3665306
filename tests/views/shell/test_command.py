"""Tests how the shell finds directories and formats results, and that it prints no tracebacks."""

import json
from argparse import Namespace
from pathlib import Path

import pytest

from labkit.cli.main import main
from labkit.views.shell import command
from labkit.views.shell.command import run_shell
from labkit.views.shell.records import Source
from labkit.views.shell.verbs import Verb
from tests.system.storage.support import copy_of_golden
from tests.views.shell.support import CLEAN, Run, failure, json_lines


def test_the_folder_of_a_labkit_bookie_is_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = copy_of_golden(CLEAN.name, tmp_path)
    (root / "j").rename(root / "journal")
    (root / "l").rename(root / "ledgers")
    assert main(["shell", "--data", str(root), "lastmark"]) == 0
    assert "Pos - 3584" in capsys.readouterr().out


def test_options_may_follow_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    journal, ledgers = ["--journal", str(CLEAN / "j")], ["--ledgers", str(CLEAN / "l")]
    for arguments in (
        ["--json", *journal, *ledgers, "lastmark"],
        ["lastmark", "--json", *journal, *ledgers],
        [*journal, "lastmark", *ledgers, "--json"],
    ):
        assert main(["shell", *arguments]) == 0
        assert json.loads(capsys.readouterr().out)["kind"] == "LastMark"


@pytest.mark.parametrize(
    "where",
    [[], ["--data", "x", "--journal", "y"], ["--data", "nowhere"], ["--ledgers", "nowhere"]],
)
def test_unclear_or_missing_directories_are_one_line(
    capsys: pytest.CaptureFixture[str], where: list[str]
) -> None:
    assert main(["shell", *where, "lastmark"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("labkit: ")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("verb", "is_document"),
    [
        ("readlogmetadata 0", True),
        ("listfilesondisc", True),
        ("localconsistencycheck", True),
        ("rebuildindex -dryRun 5", True),
        ("readjournal 1a1fd4b7370.txn", False),
        ("readlog 0", False),
        ("ledger 5", False),
        ("readledger 5", False),
        ("listledgers", False),
        ("lastmark", False),
    ],
)
def test_a_short_answer_is_a_json_document_and_a_stream_is_an_object_a_line(
    run: Run, verb: str, is_document: bool
) -> None:
    code, output, _ = run(CLEAN, "--json", *verb.split())
    assert code == 0
    documents = [json.loads(output)] if is_document else json_lines(output)
    assert all("kind" in each for each in documents)


def test_entries_come_with_their_bytes_when_asked_for(run: Run) -> None:
    _, output, _ = run(CLEAN, "--json", "readledger", "-m", "5", "1", "1")
    source, world = json_lines(output)
    assert source["file"] == "0.log"
    assert bytes.fromhex(world["data"]).endswith(b"world")


def test_hmac_without_a_password_is_refused(run: Run) -> None:
    code, _, errors = run(CLEAN, "--digest", "hmac", "readlog", "0")
    assert (code, errors) == (
        1,
        "labkit: --digest hmac requires the ledger's password (--password)\n",
    )


def test_a_directory_that_may_not_be_read_is_one_line(run: Run, tmp_path: Path) -> None:
    index = copy_of_golden(CLEAN.name, tmp_path) / "l/current/0.log"
    index.unlink()
    index.mkdir()
    errors = failure(run(tmp_path, "readledger", "5"))
    assert errors.count("\n") == 1


def test_a_line_feed_in_a_record_does_not_begin_a_line() -> None:
    lines: list[str] = []
    verb = Verb("lastmark", "", on_files=lambda _: [Source("a\nb\x1b")])
    files = {"data": None, "journal": None, "ledgers": None, "index": None}
    arguments = Namespace(row=verb, json=False, zookeeper=None, **files)
    assert run_shell(arguments, lines.append) == 0
    assert lines == ["In a\\u000ab\\u001b"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["messageid", "3:0:-1:-1", "b0"], "expected BOOKIE=FOLDER"),
        (["messageid", "3:0:-1:-1", "b0=/nowhere"], "does not contain the folders"),
        (["messageid", "3", "b0=/nowhere"], "'3' is not a MessageID"),
        (["simpletest", "-n", "0"], "the number of entries must be at least 1, got 0"),
    ],
)
def test_wrong_arguments_are_reported_before_the_shell_connects(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    async def connect(_: object) -> None:
        pytest.fail("the shell has connected")

    monkeypatch.setattr(command, "_connect", connect)
    assert main(["shell", "--zookeeper", "localhost:1", *arguments]) == 1
    assert message in capsys.readouterr().err
