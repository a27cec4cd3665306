"""Tests that the byte X-ray names every byte of every file once, even if the file is damaged."""

import json
import random
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.cli.main import main
from labkit.system.metadata.cookie import Cookie
from labkit.system.model.errors import LabkitError
from labkit.system.model.layout import Span
from labkit.views.shell.consistency import check_consistency
from labkit.views.shell.entry_log import read_log, read_log_metadata
from labkit.views.shell.folders import ShellError, parse_file_id
from labkit.views.shell.journal import read_journal
from labkit.views.shell.ledgers import list_ledgers, read_index, read_ledger
from labkit.views.shell.rebuild import rebuild_index
from labkit.views.shell.xray import file_spans
from labkit.views.xray.file_spans import format_spans, journal_spans
from labkit.worlds.live.disk import RealDisk
from tests.system.storage.support import CRC32C, GOLDEN, add, copy_of_golden, open_store
from tests.views.shell.support import CLEAN, JOURNAL_ID, ROLLED, folders_of

FILES = sorted(path for path in GOLDEN.rglob("current/**/*") if path.is_file())


def values(path: Path, *names: str) -> list[tuple[int, str]]:
    return [(span.offset, span.value) for span in file_spans(path) if span.name in names]


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-4:]))
def test_every_byte_has_one_name(path: Path) -> None:
    end = 0
    for span in file_spans(path):
        assert span.offset == end
        end += span.size
    assert end == path.stat().st_size


def test_preallocated_zeros_have_a_name_too(tmp_path: Path) -> None:
    add(open_store(tmp_path), 5, 0)
    *_, last = file_spans(tmp_path / "j/current/1.txn")
    assert (last.name, last.offset + last.size) == ("preallocated", 1024 * 1024)


def test_journal_entry_log_and_index_agree_on_an_entry() -> None:
    journal, log = CLEAN / "j/current/1a1fd4b7370.txn", CLEAN / "l/current/0.log"
    assert values(journal, "payload")[:2] == [(596, "'hello'"), (1064, "'world'")]
    assert values(log, "payload")[:2] == [(1064, "'hello'"), (1109, "'world'")]
    index = CLEAN / "l/current/0/5/5.idx"
    assert values(index, "entry 0", "entry 1") == [
        (1024, "0.log, offset 1028"),
        (1032, "0.log, offset 1073"),
    ]
    assert values(index, "state bits", "explicit LAC length") == [(32, "1"), (36, "20")]


def test_a_ledgers_map_is_named() -> None:
    spans = {span.name: span for span in file_spans(ROLLED / "l/current/0.log")}
    assert spans["ledgers map offset"].value == "22304"
    assert (spans["count"].offset, spans["bytes"].value) == (22324, "21280")


def test_small_files_are_named(tmp_path: Path) -> None:
    assert values(CLEAN / "l/current/lastMark", "journal file id", "offset") == [
        (0, str(JOURNAL_ID)),
        (8, "3584"),
    ]
    assert values(CLEAN / "l/current/lastId", "log id") == [(0, "1")]
    (tmp_path / "VERSION").write_bytes(Cookie("b:1", "j", ("l",), "uuid").encode())
    assert [(s.name, s.value) for s in file_spans(tmp_path / "VERSION")] == [
        ("layout version", "5"),
        ("bookieHost", '"b:1"'),
        ("journalDir", '"j"'),
        ("ledgerDirs", '"1\\tl"'),
        ("instanceId", '"uuid"'),
    ]


def test_the_digests_size_moves_the_payload() -> None:
    spans = list(file_spans(CLEAN / "l/current/0.log", digest_size=20))
    assert [s.size for s in spans if s.name in ("digest", "payload")][-2:] == [20, 700]


def test_a_notebook_prints_spans_of_a_disk() -> None:
    lines = format_spans(journal_spans(RealDisk(CLEAN / "j"), JOURNAL_ID)).splitlines()
    assert lines[0].split() == ["0", "4", "magic", "BKLG", "BKLG"]


def test_the_command_prints_spans_in_both_formats(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(CLEAN / "l/current/lastMark")
    assert main(["shell", "xray", path]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["8", "8", "offset", "3584"]
    assert main(["shell", "--json", "xray", path]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (first["kind"], first["name"], first["size"]) == ("Span", "journal file id", 8)


@pytest.mark.parametrize("name", ["missing.log", "unknown.bin", "foo.txn"])
def test_a_file_that_is_not_there_or_not_known_is_reported(tmp_path: Path, name: str) -> None:
    if name != "missing.log":
        (tmp_path / name).touch()
    with pytest.raises(ShellError, match=name):
        list(file_spans(tmp_path / name))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), path=st.sampled_from(FILES))
def test_damaged_bytes_give_values_or_a_clear_error(seed: int, path: Path) -> None:
    with TemporaryDirectory() as root:
        look_at_damaged(Path(root), path, random.Random(seed))


def look_at_damaged(root: Path, path: Path, lots: random.Random) -> None:
    bookie = path.relative_to(GOLDEN).parts[0]
    damaged = copy_of_golden(bookie, root) / path.relative_to(GOLDEN / bookie)
    data = bytearray(damaged.read_bytes()[: lots.choice([None, lots.randrange(3000)])])
    for _ in range(lots.randrange(4)):
        at = lots.randrange(len(data) + 1)
        data[at : at + 8] = lots.choice([lots.randbytes(8), bytes(8), b"\xff" * 8])
    damaged.write_bytes(data)
    folders = folders_of(root)
    journal = next((root / "j/current").iterdir()).name
    for look in (
        lambda: list[Span](file_spans(damaged)),
        lambda: list(read_journal(folders, parse_file_id(journal, ".txn", 10), CRC32C)),
        lambda: list(read_log(folders, parse_file_id("0.log", ".log", 10), digest=CRC32C)),
        lambda: read_log_metadata(folders, parse_file_id("0", ".log", 16)),
        lambda: list(read_index(folders, 5)),
        lambda: list(read_ledger(folders, 7, digest=CRC32C)),
        lambda: list(list_ledgers(folders)),
        lambda: check_consistency(folders, CRC32C),
        lambda: rebuild_index(folders, 7, digest=CRC32C),
    ):
        with suppress(LabkitError):
            look()
