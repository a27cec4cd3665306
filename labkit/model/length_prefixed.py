"""Bytes behind their length: frames on the wire, and records in the journal."""

import struct
from collections.abc import Sequence
from itertools import chain

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
