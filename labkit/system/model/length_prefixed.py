"""Bytes behind their length: frames on the wire, and records in the journal."""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any, overload

LENGTH_SIZE = 4
"""Bytes of a length, which is a u32."""

_LENGTH = struct.Struct(">I")
_WORTH_A_BLOCK = 4


def join_with_lengths(bodies: Sequence[bytes]) -> bytes:
    """The bodies one behind the other, each behind its length."""
    sizes = {*map(len, bodies)}
    if len(sizes) == 1:
        # As answers and most entries of a writer are.  The length is what joins them, which takes
        # half of the time.
        return _LENGTH.pack(sizes.pop()).join((b"", *bodies))
    lengths = map(_LENGTH.pack, map(len, bodies))
    return b"".join(chain.from_iterable(zip(lengths, bodies, strict=True)))


def join_in_parts(bodies: Sequence[bytes], part_size: int) -> Iterator[bytes]:
    """The same bytes in parts: each holds as many bodies as make `part_size` bytes at the most, or
    one larger body.
    """
    ends = [*accumulate(map(len, bodies))]
    first = begin = 0
    while first < len(bodies):
        last = max(first + 1, bisect_right(ends, begin + part_size))
        yield join_with_lengths(bodies[first:last])
        first, begin = last, ends[last - 1]


class EqualBodies(Sequence[bytes]):
    """Bodies of one size as they were received: in one block, each behind its length.

    Nothing is copied before it is asked for.  The block may be a shared buffer, so this is valid
    only during the call that hands it over; the bodies that it gives are for keeps.
    """

    def __init__(self, block: memoryview, size: int) -> None:
        """`size` is that of a body, without its length."""
        self.size = size
        self._block = block

    def __len__(self) -> int:
        return len(self._block) // (LENGTH_SIZE + self.size)

    def __iter__(self) -> Iterator[bytes]:
        return map(itemgetter(0), self.columns("", rest=True))

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(at, slice):
            return [*self][at]
        begin = range(LENGTH_SIZE, len(self._block) + 1, LENGTH_SIZE + self.size)[at]
        return bytes(self._block[begin : begin + self.size])

    def columns(self, codes: str, *, rest: bool = False) -> Iterator[tuple[Any, ...]]:
        """Of each body the fields that it begins with, in `struct`'s codes, big-endian; behind
        them the rest, if wanted.  Raises `struct.error` for bodies that are too short.
        """
        rest_size = self.size - struct.calcsize(">" + codes)
        rest_code = "s" if rest else "x"
        return struct.iter_unpack(f">{LENGTH_SIZE}x{codes}{rest_size}{rest_code}", self._block)


def equal_bodies(data: memoryview, most: int) -> EqualBodies | None:
    """The complete bodies, `most` of them at the most, that the data begins with, if they have one
    size; None if their sizes differ, or if they are too few to gain anything.
    """
    if len(data) < LENGTH_SIZE:
        return None
    length = bytes(data[:LENGTH_SIZE])
    size = int.from_bytes(length, "big")
    step = LENGTH_SIZE + size
    count = min(most, len(data) // step)
    if count < _WORTH_A_BLOCK:
        return None
    block = data[: count * step]
    # Byte by byte of their lengths: each slice takes that byte of all of them.
    for at in range(LENGTH_SIZE):
        if block[at::step].tobytes() != length[at : at + 1] * count:
            return None
    return EqualBodies(block, size)
