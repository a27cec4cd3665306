"""Tests for a bookie's cookie: its format, and the directories with which a bookie may start."""

from contextlib import suppress
from dataclasses import replace

import pytest

from labkit.system.metadata.cookie import Cookie, check_cookie, delete_cookie, read_cookie
from labkit.system.metadata.store import NodeExistsError, NoNodeError
from labkit.system.model.errors import InvalidCookieException, OtherStorageException
from labkit.worlds.sim.machine.disk import CrashError, DiskController, SimDisk
from labkit.worlds.sim.machine.disk_operation import lost
from labkit.worlds.sim.settings.bookie_script import Machine
from tests.system.client.memory_store import MemoryStore

COOKIE = Cookie("b", "journal", ("one", "two"), "3c8c0f0e-0000-4000-8000-1234567890ab")
LARGER = replace(COOKIE, ledger_dirs=("one", "two", "three"))
NODE = "/ledgers/cookies/b"


def machine(*ledger_dirs: str) -> Machine:
    controller = DiskController()
    disks = tuple(SimDisk(controller, name) for name in ledger_dirs or COOKIE.ledger_dirs)
    return Machine((SimDisk(controller, "journal"),), disks)


async def started(store: MemoryStore) -> Machine:
    """Return the machine of a bookie that has been started once."""
    bookie = machine()
    await check_cookie(store, COOKIE, bookie.disks)
    return bookie


def with_one_more(bookie: Machine) -> Machine:
    return Machine(bookie.journals, (*bookie.ledgers, SimDisk(DiskController(), "three")))


def test_cookie_is_the_text_that_bookkeeper_writes() -> None:
    cookie = Cookie("192.0.2.1:3181", "/j", ("/l1", "/l2"), COOKIE.instance_id)
    text = (
        b'5\nbookieHost: "192.0.2.1:3181"\njournalDir: "/j"\n'
        b'ledgerDirs: "2\\t/l1\\t/l2"\ninstanceId: "3c8c0f0e-0000-4000-8000-1234567890ab"\n'
    )
    assert cookie.encode() == text
    assert Cookie.decode(text, "here") == cookie


def test_folder_outside_ascii_is_written_in_octal_as_bookkeeper_does() -> None:
    cookie = Cookie("b", '/ü"', ("/l",), COOKIE.instance_id)
    assert b'journalDir: "/\\303\\274\\""\n' in cookie.encode()
    assert Cookie.decode(cookie.encode(), "here") == cookie


@pytest.mark.parametrize("data", [b"", b"3\nhost\n/j\n/l", b"5\nno such field: 1\n", b"5\n\xff"])
def test_cookie_that_cannot_be_read_is_rejected_by_place(data: bytes) -> None:
    with pytest.raises(InvalidCookieException, match="here"):
        Cookie.decode(data, "here")


def test_cookie_of_a_bookie_with_separate_index_directories_is_rejected() -> None:
    text = Cookie("b", "/j", ("/l",), COOKIE.instance_id).encode()
    assert Cookie.decode(text + b'indexDirs: "1\\t/l"\n', "here").ledger_dirs == ("/l",)
    with pytest.raises(
        InvalidCookieException, match=r"here: .* would not find this bookie's entries"
    ):
        Cookie.decode(text + b'indexDirs: "1\\t/i"\n', "here")


@pytest.mark.promise(
    "Cookies keep directories as configured; without an id, the address and port are the id"
)
def test_relative_directories_stay_as_they_are_configured() -> None:
    cookie = Cookie("relative", "./j,j/../j2", ("l/", "l2"), COOKIE.instance_id)
    assert b'journalDir: "./j,j/../j2"\nledgerDirs: "2\\tl/\\tl2"\n' in cookie.encode()


async def test_first_start_stamps_every_directory_and_then_the_cluster() -> None:
    store = MemoryStore()
    bookie = await started(store)
    for disk in bookie.disks:
        assert disk.open("current/VERSION").read(0, 1000) == COOKIE.encode()
    assert await store.get(NODE) == (COOKIE.encode(), 0)


async def test_directory_of_another_storage_is_rejected_before_it_is_stamped() -> None:
    store, bookie = MemoryStore(), machine()
    bookie.disks[1].create("0.log").close()
    with pytest.raises(OtherStorageException, match="before version 3"):
        await check_cookie(store, COOKIE, bookie.disks)
    assert await read_cookie(store, "b") is None
    assert [disk.names("current") for disk in bookie.disks] == [[], [], []]


async def test_a_bookie_starts_again_on_all_of_its_directories_after_a_power_cut() -> None:
    store = MemoryStore()
    bookie = (await started(store)).after_crash(lost)
    assert [disk.names("current") for disk in bookie.disks] == [["VERSION"]] * 3
    await check_cookie(store, COOKIE, bookie.disks)
    assert await read_cookie(store, "b") == COOKIE


async def test_a_bookie_does_not_start_on_other_directories_than_its_own() -> None:
    store = MemoryStore()
    bookie = await started(store)
    with pytest.raises(InvalidCookieException, match="journal_dir is 'journal' there and 'j' here"):
        await check_cookie(store, replace(COOKIE, journal_dir="j"), bookie.disks)
    with pytest.raises(InvalidCookieException, match="1 of its 3 directories have no"):
        await check_cookie(store, COOKIE, (*bookie.disks[:2], SimDisk(DiskController(), "two")))


@pytest.mark.promise("Cookies keep foreign and lost disks out")
async def test_directories_of_another_bookie_or_cluster_are_rejected() -> None:
    bookie = await started(MemoryStore())
    with pytest.raises(InvalidCookieException, match="another cluster"):
        await check_cookie(MemoryStore(), COOKIE, bookie.disks)
    with pytest.raises(InvalidCookieException, match="bookie_id is 'b' there and 'c' here"):
        await check_cookie(MemoryStore(), replace(COOKIE, bookie_id="c"), bookie.disks)


async def test_a_new_bookie_needs_empty_directories() -> None:
    bookie = machine()
    bookie.disks[1].create("current/0.log").close()
    with pytest.raises(InvalidCookieException, match="not empty"):
        await check_cookie(MemoryStore(), COOKIE, bookie.disks)


async def test_of_two_bookies_that_join_with_one_id_the_second_is_rejected_and_stamps_nothing() -> (
    None
):
    class Raced(MemoryStore):
        async def create(self, path: str, data: bytes, **_: bool) -> str:
            raise NodeExistsError(path)

    bookie = machine()
    with pytest.raises(InvalidCookieException, match="another bookie b joined"):
        await check_cookie(Raced(), COOKIE, bookie.disks)
    assert [disk.names("current") for disk in bookie.disks] == [[], [], []]


async def test_a_bookie_without_a_cookie_is_unknown_and_starts_on_new_directories_alone() -> None:
    store = MemoryStore()
    bookie = await started(store)
    await delete_cookie(store, "b")
    assert await read_cookie(store, "b") is None
    with pytest.raises(NoNodeError):
        await delete_cookie(store, "b")
    with pytest.raises(InvalidCookieException, match="the cluster does not know it"):
        await check_cookie(store, COOKIE, bookie.disks)
    await check_cookie(store, COOKIE, machine().disks)


@pytest.mark.promise(
    "A ledger directory is added only if `allowStorageExpansion` is set, and only if it is empty"
)
async def test_an_empty_ledger_directory_is_added_where_that_is_allowed() -> None:
    store = MemoryStore()
    larger = with_one_more(await started(store))
    with pytest.raises(InvalidCookieException, match="ledger_dirs"):
        await check_cookie(store, LARGER, larger.disks)
    await check_cookie(store, LARGER, larger.disks, allow_expansion=True)
    after = larger.after_crash(lost)
    await check_cookie(store, LARGER, after.disks)
    assert await read_cookie(store, "b") == LARGER
    with pytest.raises(InvalidCookieException, match="ledger_dirs"):
        await check_cookie(store, COOKIE, after.disks[:3], allow_expansion=True)


async def test_directories_in_another_order_are_the_same_ones_where_one_may_be_added() -> None:
    store = MemoryStore()
    bookie = await started(store)
    turned = replace(COOKIE, ledger_dirs=("two", "one"))
    disks = (bookie.disks[0], bookie.disks[2], bookie.disks[1])
    with pytest.raises(InvalidCookieException, match="ledger_dirs"):
        await check_cookie(store, turned, disks)
    await check_cookie(store, turned, disks, allow_expansion=True)
    assert await read_cookie(store, "b") == turned
    await check_cookie(store, turned, disks)


async def test_what_is_added_must_be_empty_and_what_was_there_must_be_stamped() -> None:
    store = MemoryStore()
    bookie = await started(store)
    larger = with_one_more(bookie)
    larger.disks[3].create("current/0.log").close()
    with pytest.raises(InvalidCookieException, match="not a new, empty"):
        await check_cookie(store, LARGER, larger.disks, allow_expansion=True)
    replaced = (
        *bookie.disks[:2],
        SimDisk(DiskController(), "two"),
        SimDisk(DiskController(), "three"),
    )
    with pytest.raises(InvalidCookieException, match="not a new, empty"):
        await check_cookie(store, LARGER, replaced, allow_expansion=True)
    assert await read_cookie(store, "b") == COOKIE


async def test_nothing_else_of_a_cookie_may_change_when_a_directory_is_added() -> None:
    store = MemoryStore()
    larger = with_one_more(await started(store))
    moved = replace(LARGER, journal_dir="j")
    with pytest.raises(
        InvalidCookieException, match=f"{NODE} does not match .* 'journal' there and 'j' here"
    ):
        await check_cookie(store, moved, larger.disks, allow_expansion=True)
    other = (await started(MemoryStore())).disks
    stamp = replace(COOKIE, journal_dir="j").encode()
    other[1].create("current/VERSION").write(0, stamp)
    disks = (*other, SimDisk(DiskController(), "three"))
    with pytest.raises(
        InvalidCookieException, match=r"VERSION does not match .* 'j' there and 'journal'"
    ):
        await check_cookie(store, LARGER, disks, allow_expansion=True)
    assert await read_cookie(store, "b") == COOKIE


@pytest.mark.parametrize("allow_expansion", [False, True])
async def test_a_start_that_lost_its_power_anywhere_is_taken_up_again(
    allow_expansion: bool,
) -> None:
    for operation in range(200):
        store, bookie = MemoryStore(), machine("one", "two", "three")
        if allow_expansion:
            small = Machine(bookie.journals, bookie.ledgers[:2])
            await check_cookie(store, COOKIE, small.disks)
        controller = bookie.disks[0].controller
        controller.stop_at = len(controller.operations) + operation
        with suppress(CrashError):
            await check_cookie(store, LARGER, bookie.disks, allow_expansion=allow_expansion)
            assert operation > 10
            return
        after = bookie.after_crash(lost)
        await check_cookie(store, LARGER, after.disks, allow_expansion=allow_expansion)
        await check_cookie(store, LARGER, after.disks)
    pytest.fail("the start never ended")


async def test_a_bookie_whose_place_in_the_cluster_another_has_taken_does_not_start() -> None:
    store = MemoryStore()
    bookie = await started(store)
    await store.set(NODE, replace(COOKIE, journal_dir="elsewhere").encode(), 0)
    with pytest.raises(InvalidCookieException, match=f"{NODE} does not match this bookie"):
        await check_cookie(store, COOKIE, bookie.disks)
