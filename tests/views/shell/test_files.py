"""Tests that `listfilesondisc` lists the files of each kind."""

from labkit.views.shell.files import list_files
from labkit.views.shell.records import FilesOnDisc
from tests.views.shell.support import CLEAN, Run, folders_of

JOURNALS = (f"{CLEAN}/j/current/1a1fd4b7370.txn",)
LOGS = (f"{CLEAN}/l/current/0.log", f"{CLEAN}/l/current/1.log")
INDEXES = (f"{CLEAN}/l/current/0/5/5.idx", f"{CLEAN}/l/current/12/34/1234.idx")


def test_all_kinds_are_listed() -> None:
    assert list_files(folders_of(CLEAN)) == FilesOnDisc(JOURNALS, LOGS, INDEXES)


def test_only_the_kinds_asked_for_are_printed_under_bookkeepers_titles(run: Run) -> None:
    code, output, _ = run(CLEAN, "listfilesondisc", "-txn", "-idx")
    assert code == 0
    assert output.splitlines() == [
        "--------- Printing the list of Journal Files ---------",
        *JOURNALS,
        "",
        "--------- Printing the list of Index Files ---------",
        *INDEXES,
        "",
    ]
