"""Tests that `readjournal` and `lastmark` print all records and marks, and why a journal ends."""

import struct
from pathlib import Path

import pytest

from labkit.system.model.errors import StorageDamagedException
from labkit.views.shell.folders import FileId, open_folders, parse_file_id
from labkit.views.shell.journal import last_marks, read_journal, records_from_mark
from labkit.views.shell.records import (
    ExplicitLacRecord,
    FenceRecord,
    JournalFile,
    LastMark,
    LedgerKeyRecord,
    MarkCopy,
    StoredEntry,
    UnknownRecord,
)
from tests.system.storage.support import CRC32C, KEY, add, copy_of_golden, entry, open_store
from tests.views.shell.support import (
    CLEAN,
    JOURNAL_ID,
    V4,
    V6,
    Run,
    failure,
    folders_of,
    json_lines,
    overwrite,
)

JOURNAL = "1a1fd4b7370.txn"
LAC_BODY = bytes.fromhex("000000000000000500000000000000019aea0d92")


def wanted(text: str) -> FileId:
    return parse_file_id(text, ".txn", 10)


def frame(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def write_journal(root: Path, content: bytes) -> None:
    for folder in ("j/current", "l/current"):
        (root / folder).mkdir(parents=True)
    (root / "j/current/1.txn").write_bytes(content)


def test_every_kind_of_record_is_shown_as_what_it_is() -> None:
    first, *records = read_journal(folders_of(CLEAN), wanted(JOURNAL), CRC32C)
    assert first == JournalFile(JOURNAL_ID, JOURNAL, 6)
    assert records[0] == LedgerKeyRecord(JOURNAL, 512, 40, 5, -4096, KEY)
    assert records[5] == ExplicitLacRecord(JOURNAL, 2560, 40, 5, -32768, 1, LAC_BODY)
    assert records[6] == FenceRecord(JOURNAL, 3072, 16, 5, -8192)
    hello = records[1]
    assert isinstance(hello, StoredEntry)
    assert (hello.offset, hello.size, hello.last_add_confirmed) == (556, 41, -1)
    assert (hello.payload, hello.digest_matches) == (b"hello", True)


def test_readjournal_prints_what_bookkeepers_shell_prints(run: Run) -> None:
    code, output, errors = run(CLEAN, "readjournal", JOURNAL)
    assert (code, errors) == (0, "")
    assert output.startswith(
        f"Scan journal {JOURNAL_ID} ({JOURNAL})\n"
        "Journal Version : 6\n"
        "--------- Lid=5, Eid=-4096, ByteOffset=512, EntrySize=40 ---------\n"
        "Type:           META\n"
        f"MasterKey:      {KEY.hex()}\n\n"
        "--------- Lid=5, Eid=0, ByteOffset=556, EntrySize=41 ---------\n"
        "Type:           DATA\n"
        "LastConfirmed:  -1\n\n"
    )
    assert output.endswith(
        "--------- Lid=5, Eid=-8192, ByteOffset=3072, EntrySize=16 ---------\n"
        "Type:           META\n"
        "Fenced\n\n"
    )


@pytest.mark.parametrize(
    ("root", "name", "version"), [(V4, "1a1fd4de904.txn", 4), (V6, "1a1fd4e0551.txn", 6)]
)
def test_a_journal_of_either_version_gives_one_json_object_a_line(
    run: Run, root: Path, name: str, version: int
) -> None:
    code, output, _ = run(root, "--json", "--digest", "crc32c", "readjournal", name)
    head, key, *entries = json_lines(output)
    assert code == 0
    assert (head["kind"], head["version"]) == ("JournalFile", version)
    assert (key["kind"], key["master_key"]) == ("LedgerKeyRecord", KEY.hex())
    assert [(e["entry_id"], e["digest_matches"]) for e in entries] == [(i, True) for i in range(3)]
    assert "data" not in entries[0]


def test_a_record_without_a_meaning_and_an_entry_without_a_header_are_shown(tmp_path: Path) -> None:
    unknown, short = struct.pack(">qq", 5, -7), struct.pack(">qq", 5, 0)
    write_journal(tmp_path, b"BKLG\0\0\0\4" + frame(unknown, short))
    _, first, second = read_journal(folders_of(tmp_path), wanted("1"), CRC32C)
    assert first == UnknownRecord("1.txn", 8, 16, 5, -7, b"")
    assert isinstance(second, StoredEntry)
    assert (second.last_add_confirmed, second.payload, second.digest_matches) == (None, b"", False)


def test_a_torn_tail_is_one_line_with_file_and_offset(run: Run, tmp_path: Path) -> None:
    write_journal(tmp_path, b"BKLG\0\0\0\4" + frame(entry(5, 0), entry(5, 1))[:-3])
    code, output, errors = run(tmp_path, "readjournal", "1")
    assert code == 1
    assert output.count("Lid=5") == 1
    assert errors == (
        "labkit: 1.txn, offset 53: a record of 41 bytes is cut off by the end of the file at 95;"
        " replay stops here\n"
    )


def test_bytes_behind_the_end_are_reported(run: Run, tmp_path: Path) -> None:
    content = b"BKLG\0\0\0\4" + frame(entry(5, 0)) + bytes(100) + frame(entry(5, 1))
    write_journal(tmp_path, content)
    errors = failure(run(tmp_path, "readjournal", "1.txn"))
    assert "1.txn, offset 53: the records end here, but the bytes at offset 156 are" in errors


@pytest.mark.parametrize(
    ("offset", "data", "message"),
    [
        (4, b"\0\0\0\7", "version 7 at offset 4"),
        (1024, b"\xff\xff\xfe\x00", "invalid record length -512 at offset 1024"),
        (605, b"\xff\xff\xff\xff", "invalid padding length -1 at offset 601"),
    ],
)
def test_damage_is_one_line_with_file_and_offset(
    run: Run, tmp_path: Path, offset: int, data: bytes, message: str
) -> None:
    overwrite(copy_of_golden(CLEAN.name, tmp_path) / "j/current" / JOURNAL, offset, data)
    errors = failure(run(tmp_path, "readjournal", JOURNAL))
    assert errors.count("\n") == 1
    assert JOURNAL in errors
    assert message in errors


def test_a_damaged_payload_is_found_by_its_digest(run: Run, tmp_path: Path) -> None:
    overwrite(copy_of_golden(CLEAN.name, tmp_path) / "j/current" / JOURNAL, 596, b"j")
    assert run(tmp_path, "readjournal", JOURNAL)[0] == 0
    code, output, errors = run(tmp_path, "--digest", "crc32c", "readjournal", JOURNAL)
    assert code == 1
    assert "Digest:         DOES NOT MATCH" in output
    assert f"{JOURNAL}, offset 556: the digest of entry 0 of ledger 5 does not match" in errors


def test_hmac_is_checked_with_the_password_of_the_option_or_the_environment(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def matches(*options: str) -> object:
        verb = ("--json", "--digest", "hmac", *options, "readjournal", JOURNAL)
        return json_lines(run(CLEAN, *verb)[1])[5].get("digest_matches")

    assert matches("--password", "pw") is True
    assert matches("--password", "other") is False
    monkeypatch.setenv("LABKIT_LEDGER_PASSWORD", "pw")
    assert matches() is True


def test_data_is_printed_when_asked_for(run: Run) -> None:
    _, output, _ = run(CLEAN, "readjournal", "-m", JOURNAL)
    assert "digest and payload, 9 bytes\n  000000  b5 48 f3 69 68 65 6c 6c 6f  " in output
    _, output, _ = run(CLEAN, "--digest", "crc32c", "readjournal", "-m", JOURNAL)
    assert "payload, 5 bytes\n  000000  68 65 6c 6c 6f  " in output


def test_lastmark_prints_what_bookkeepers_shell_prints(run: Run) -> None:
    assert run(CLEAN, "lastmark") == (
        0,
        f"LastLogMark : Journal Id - {JOURNAL_ID}({JOURNAL}), Pos - 3584\n",
        "",
    )


def test_last_mark_is_the_largest_copy_and_each_journal_has_its_own(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("j0", "j1", "l0", "l1")]
    for place in places:
        (place / "current").mkdir(parents=True)
    (tmp_path / "l0/current/lastMark.0").write_bytes(struct.pack(">qq", 3, 512))
    (tmp_path / "l1/current/lastMark.0").write_bytes(struct.pack(">qq", 2, 9000))
    (tmp_path / "l1/current/lastMark.1").write_bytes(b"short")
    folders = open_folders(places[:2], places[2:])
    assert last_marks(folders) == (
        LastMark(
            0,
            3,
            512,
            (
                MarkCopy(f"{tmp_path}/l0/current/lastMark.0", 3, 512),
                MarkCopy(f"{tmp_path}/l1/current/lastMark.0", 2, 9000),
            ),
        ),
        LastMark(1, 0, 0, (MarkCopy(f"{tmp_path}/l1/current/lastMark.1", None, None),)),
    )


@pytest.mark.parametrize("mark", [bytes(15), struct.pack(">qq", -1, 5), struct.pack(">qq", 5, -1)])
def test_a_torn_or_negative_last_mark_counts_for_the_shell_as_for_the_bookie(
    run: Run, tmp_path: Path, mark: bytes
) -> None:
    (copy_of_golden(CLEAN.name, tmp_path) / "l/current/lastMark").write_bytes(mark)
    code, output, errors = run(tmp_path, "lastmark")
    assert (code, output) == (1, "LastLogMark : Journal Id - 0(0.txn), Pos - 0\n")
    assert "l/current/lastMark: ignored, because it is negative or not 16 bytes long" in errors
    assert run(tmp_path, "listledgers")[0] == 0


def test_records_from_the_mark_are_those_that_replay_needs(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    add(store, 5, 0)
    store.checkpoint()
    add(store, 5, 1)
    replayed = [record.entry_id for _, record in records_from_mark(folders_of(tmp_path))]
    assert replayed == [1]


def test_a_missing_marked_journal_is_reported(tmp_path: Path) -> None:
    (copy_of_golden(CLEAN.name, tmp_path) / "j/current" / JOURNAL).unlink()
    with pytest.raises(StorageDamagedException, match=f"journal {JOURNAL} is missing"):
        list(records_from_mark(folders_of(tmp_path)))
