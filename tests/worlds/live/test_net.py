"""Tests frames on real TCP connections."""

import struct

import pytest

from labkit.system.model.wire import MAX_FRAME_SIZE
from labkit.worlds.live.net import (
    CannotListenError,
    authority,
    listen,
    split_frames,
)


def frames(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(body)) + body for body in bodies)


@pytest.mark.parametrize("cut", range(20))
def test_frames_come_whole_wherever_the_bytes_are_cut(cut: int) -> None:
    data = frames(b"one", b"", b"three", b"")
    first, end = split_frames(data[:cut])
    second, end = split_frames(data, end)
    assert [*first, *second] == [b"one", b"", b"three", b""]
    assert end == len(data)


def test_frame_at_the_limit_is_taken_and_one_above_is_not() -> None:
    largest = MAX_FRAME_SIZE - 4
    assert split_frames(struct.pack(">I", largest)) == ([], 0)
    with pytest.raises(ValueError, match=f"exceeds the limit of {largest} bytes"):
        split_frames(struct.pack(">I", largest + 1))


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "127.0.0.1:6650"), ("broker", "broker:6650"), ("::1", "[::1]:6650")],
)
def test_an_ipv6_address_stands_in_brackets_before_its_port(host: str, url: str) -> None:
    assert authority(host, 6650) == url


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("no-such-host.invalid", "cannot resolve no-such-host.invalid"),
        ("192.0.2.1", r"192\.0\.2\.1.*; set advertisedAddress"),
    ],
)
async def test_an_address_of_no_or_another_machine_is_named_in_the_error(
    host: str, reason: str
) -> None:
    with pytest.raises(CannotListenError, match=reason):
        await listen(lambda _: lambda _: None, host=host)
