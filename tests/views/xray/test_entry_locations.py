"""Test where an entry's bytes are stored at each step on their way to disk."""

import pytest

from labkit.course.runs.bookie.one_bookie import OneBookie
from labkit.system.storage.entry_log import location_of
from labkit.system.storage.index.ledger_index import index_path
from labkit.views.xray.byte_region import Piece
from labkit.views.xray.entry_locations import locate_entry
from labkit.worlds.sim.machine.disk import SimDisk
from labkit.worlds.sim.machine.disk_operation import Operation, torn
from labkit.worlds.sim.settings.bookie_script import entry_bytes
from tests.system.storage.support import entry

Moments = dict[str, tuple[Piece, ...]]


def flushed(*entries: tuple[int, int]) -> OneBookie:
    """Return a bookie whose journal, entry log and index contain these entries."""
    bookie = OneBookie()
    bookie.add(*entries)
    bookie.commit()
    bookie.flush()
    return bookie


def disks_of(bookie: OneBookie) -> tuple[SimDisk, SimDisk]:
    return bookie.machine.journals[0], bookie.machine.ledgers[0]


def life_of_an_entry() -> Moments:
    """Record the locations of entry 2 of ledger 7 at each moment from the add to the flush."""
    bookie, seen = OneBookie(), Moments()

    def before(operation: Operation) -> None:
        if operation.kind == "sync":
            seen["before the sync"] = bookie.places(7, 2)

    bookie.add((7, 2))
    seen["after the add"] = bookie.places(7, 2)
    controller = bookie.machine.journals[0].controller
    controller.watch = before
    bookie.commit()
    controller.watch = None
    seen["after the sync"] = bookie.places(7, 2)
    bookie.flush()
    seen["after the flush"] = bookie.places(7, 2)
    return seen


@pytest.fixture(scope="module")
def moments() -> Moments:
    return life_of_an_entry()


def states(pieces: tuple[Piece, ...]) -> list[str]:
    return [piece.state for piece in pieces[1:]]


def test_an_entry_is_in_the_journal_when_synced_and_in_log_and_index_when_flushed(
    moments: Moments,
) -> None:
    assert {label: states(pieces) for label, pieces in moments.items()} == {
        "after the add": ["absent", "absent", "absent"],
        "before the sync": ["not synced", "absent", "absent"],
        "after the sync": ["synced", "absent", "absent"],
        "after the flush": ["synced", "synced", "synced"],
    }


def test_journal_and_entry_log_hold_the_bytes_that_the_client_packed(moments: Moments) -> None:
    packed, journal, log, index = moments["after the flush"]
    assert journal.data == log.data == len(packed.data).to_bytes(4, "big") + packed.data
    assert int.from_bytes(index.data, "big") == log.lined_up
    assert index.offset == 1024 + 8 * 2


def test_every_byte_of_a_piece_has_exactly_one_name(moments: Moments) -> None:
    for piece in moments["after the flush"]:
        at = piece.offset
        for span in piece.spans:
            assert span.offset == at
            at += span.size
        assert at == piece.offset + len(piece.data)


def test_a_record_that_a_power_cut_tears_is_safe_up_to_the_tear() -> None:
    bookie, entry = OneBookie(), entry_bytes(7, 2, 2000)
    machine, found = bookie.machine, list[Piece]()

    def before(operation: Operation) -> None:
        after = machine.after_crash(torn)
        disks = machine.journals[0], machine.ledgers[0]
        if operation.kind == "sync":
            left = after.journals[0], after.ledgers[0]
            found.append(locate_entry(*disks, entry, after_power_cut=left)[1])

    bookie.add((7, 2), payload_size=2000)
    machine.journals[0].controller.watch = before
    bookie.commit()
    assert found[0].state == "partly synced"
    assert (found[0].offset + found[0].safe_size) % 512 == 0


def test_without_a_power_cut_in_view_what_is_in_a_file_counts_as_synced() -> None:
    found = locate_entry(*disks_of(flushed((7, 0))), entry_bytes(7, 0, 20))
    assert states(found) == ["synced"] * 3


def test_the_index_names_the_log_and_the_offset_of_the_entry_in_it() -> None:
    bookie = flushed((7, 0))
    bookie.restart()
    bookie.add((7, 1))
    bookie.commit()
    bookie.flush()
    for entry_id in range(2):
        _, _, log, index = bookie.places(7, entry_id)
        log_id, offset = (int(span.value) for span in index.spans)
        assert log.file == f"current/{log_id:x}.log"
        assert offset == log.offset + 4
    assert log_id > 0


def test_what_is_not_there_is_said_to_be_absent() -> None:
    packed, *others = locate_entry(SimDisk(), SimDisk(), entry(7, 2))
    assert (packed.data, packed.offset, packed.safe_size) == (entry(7, 2), 0, len(entry(7, 2)))
    assert [piece.absent for piece in others] == [
        *("not written yet", "only in the memtable", "no location yet"),
    ]


@pytest.mark.parametrize("size", [0, 7, 8])
def test_a_slot_that_the_file_ends_in_is_not_a_location(size: int) -> None:
    ledgers = SimDisk()
    location = location_of(0x1F, 4660).to_bytes(8, "big")
    ledgers.create(index_path(7)).write(0, bytes(1024 + 16) + location[:size])
    *_, piece = locate_entry(SimDisk(), ledgers, entry(7, 2))
    assert piece.absent == ("" if size == 8 else "no location yet")
    if size == 8:
        spans = [(span.offset, span.size, span.value) for span in piece.spans]
        assert spans == [(1040, 4, "31"), (1044, 4, "4660")]
        assert "1f.log" in piece.spans[0].meaning


def test_a_piece_is_safe_as_far_as_a_power_cut_leaves_it() -> None:
    disks = disks_of(flushed((7, 2)))
    nothing = locate_entry(*disks, entry_bytes(7, 2, 20), after_power_cut=(SimDisk(), SimDisk()))
    assert [piece.safe_size for piece in nothing[1:]] == [0, 0, 0]
    everything = locate_entry(*disks, entry_bytes(7, 2, 20), after_power_cut=disks)
    assert [piece.safe_size for piece in everything] == [len(piece.data) for piece in everything]


def test_leading_zeros_that_were_there_before_are_not_safe() -> None:
    """The length and the ledger id start with zeros, just as preallocated space does."""
    bookie, before = OneBookie(), OneBookie()
    bookie.add((7, 2))
    bookie.commit()
    found = locate_entry(*disks_of(bookie), entry_bytes(7, 2, 20), after_power_cut=disks_of(before))
    _, journal, *_ = found
    assert journal.safe_size == 0


def test_a_digest_has_four_bytes_if_nothing_else_is_said() -> None:
    packed, *_ = locate_entry(SimDisk(), SimDisk(), entry(7, 2))
    sizes = {span.name: span.size for span in packed.spans}
    assert (sizes["digest"], sizes["payload"]) == (4, len(b"hello"))
