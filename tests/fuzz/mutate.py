"""Generate decoder inputs by mutating valid ones.

Each input depends only on a `random.Random`, so the number of the case is enough to reproduce it.
"""

import random
from collections.abc import Callable, Sequence

LONGEST_INPUT = 64 * 1024
MOST_CHANGES = 6
NUMBERS = (0, 1, -1, 2, 7, 8, 16, 20, 255, 1024, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1)

Change = Callable[[random.Random, bytearray, Sequence[bytes]], None]


def make_input(lots: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return one of the seeds with a few mutations, or occasionally random bytes."""
    if lots.random() < 0.05:
        return lots.randbytes(lots.choice((0, 1, 3, 8, 20, 64, 600)))
    data = bytearray(lots.choice(seeds))
    for _ in range(lots.randint(1, MOST_CHANGES)):
        lots.choice(CHANGES)(lots, data, seeds)
    return bytes(data[:LONGEST_INPUT])


def _slice(lots: random.Random, data: Sequence[int]) -> slice:
    start = lots.randint(0, len(data))
    return slice(start, min(len(data), start + lots.choice((1, 2, 4, 8, 16, 40, 512))))


def _flip_bit(lots: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[lots.randrange(len(data))] ^= 1 << lots.randrange(8)


def _set_byte(lots: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[lots.randrange(len(data))] = lots.choice((0, 1, 0x7F, 0x80, 0xFF, lots.randrange(256)))


def _set_number(lots: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    size = lots.choice((2, 4, 4, 8))
    number = lots.choice((*NUMBERS, len(data), len(data) + 1, lots.randint(0, 300)))
    at = lots.randint(0, max(0, len(data) - size))
    at -= at % lots.choice((1, 4))
    data[at : at + size] = (number & (1 << 8 * size) - 1).to_bytes(size, "big")


def _remove(lots: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    del data[_slice(lots, data)]


def _repeat(lots: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    part = bytes(data[_slice(lots, data)])
    at = lots.randint(0, len(data))
    data[at:at] = part * lots.choice((1, 2, 30))


def _insert(lots: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    size = lots.choice((1, 4, 8, 512))
    at = lots.randint(0, len(data))
    data[at:at] = lots.choice((bytes(size), b"\xff" * size, lots.randbytes(size)))


def _cut(lots: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    del data[lots.randint(0, len(data)) :]


def _graft(lots: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    other = lots.choice(seeds)
    data[_slice(lots, data)] = other[_slice(lots, other)]


CHANGES: tuple[Change, ...] = (
    _flip_bit,
    _set_byte,
    _set_number,
    _set_number,
    _remove,
    _repeat,
    _insert,
    _cut,
    _graft,
)
