"""Bytes behind their length: frames on the wire, and records in the journal."""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain

LENGTH_SIZE = 4
"""Bytes of a length, which is a u32."""

_LENGTH = struct.Struct(">I")


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
