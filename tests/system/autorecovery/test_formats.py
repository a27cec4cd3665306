"""Test that the contents of znodes match BookKeeper's formats byte for byte."""

from collections.abc import Callable
from functools import partial

import pytest

from labkit.system.autorecovery import formats
from labkit.system.autorecovery.formats import UnderreplicatedLedger
from labkit.system.model.errors import BKMetadataSerializationException
from tests.system.autorecovery.world import PATHS

TIME_MS = 1_700_000_000_000


def test_marks_have_bookkeepers_format() -> None:
    mark = UnderreplicatedLedger(("192.0.2.1:3181", "192.0.2.2:3181"), TIME_MS)
    text = b'replica: "192.0.2.1:3181"\nreplica: "192.0.2.2:3181"\nctime: 1700000000000\n'
    assert formats.encode_underreplicated(mark) == text
    assert formats.decode_underreplicated(text, 7) == mark


def test_a_mark_without_a_time_can_be_read() -> None:
    mark = formats.decode_underreplicated(b'replica: "h:3181"\n', 7)
    assert mark == UnderreplicatedLedger(("h:3181",), 0)


def test_other_nodes_have_bookkeepers_format() -> None:
    assert formats.encode_layout() == b'type: "BASIC"\nversion: 1\n'
    assert formats.encode_lock("192.0.2.9") == b'bookieId: "192.0.2.9"\n'
    assert formats.encode_vote("192.0.2.1:3181") == b'bookieId: "192.0.2.1:3181"\n'
    assert formats.decode_vote(b'bookieId: "192.0.2.1:3181"\n') == "192.0.2.1:3181"
    assert formats.encode_delay(60) == b"60"


def test_non_ascii_characters_are_escaped_as_in_java() -> None:
    assert formats.encode_lock("ä") == b'bookieId: "\\303\\244"\n'
    assert formats.decode_vote(formats.encode_vote("größe")) == "größe"


def test_times_of_checks_are_binary() -> None:
    data = bytes.fromhex("0880d095ffbc31")
    assert formats.encode_check_time(TIME_MS) == data
    assert formats.decode_check_time(data) == TIME_MS


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (partial(formats.decode_underreplicated, ledger_id=7), b"replica: 7"),
        (formats.decode_vote, b"\xff\xfe"),
        (formats.is_known_layout, b"BASIC"),
        (formats.decode_check_time, b"\x08"),
        (formats.decode_delay, b"soon"),
        (formats.decode_delay, b"5\n"),
        (formats.decode_delay, b""),
        (formats.decode_delay, b"9" * 400),
        (formats.decode_delay, b"-1"),
    ],
)
def test_malformed_data_raises_an_error(decode: Callable[[bytes], object], data: bytes) -> None:
    with pytest.raises(BKMetadataSerializationException):
        decode(data)


def test_an_unknown_layout_is_recognized() -> None:
    assert formats.is_known_layout(formats.encode_layout())
    assert not formats.is_known_layout(b'type: "OTHER"\nversion: 1\n')
    assert not formats.is_known_layout(b'type: "BASIC"\nversion: 2\n')


def test_paths_contain_the_id_as_four_hexadecimal_groups() -> None:
    base = "/ledgers/underreplication"
    assert PATHS.mark(7) == f"{base}/ledgers/0000/0000/0000/0007/urL0000000007"
    assert PATHS.mark(0x1234_5678_9ABC) == (
        f"{base}/ledgers/0000/1234/5678/9abc/urL{0x1234_5678_9ABC:010d}"
    )
    assert PATHS.mark(2**63 - 1) == f"{base}/ledgers/7fff/ffff/ffff/ffff/urL{2**63 - 1}"
    assert PATHS.lock(7) == f"{base}/locks/urL0000000007"
