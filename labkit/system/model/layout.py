"""Byte layouts declared as data: each format is a list of fields.

Encoders and decoders use the layout's `struct`; hex views and lessons use its fields. All
integers are signed and big-endian, as everywhere in BookKeeper.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """A field with a fixed size. `code` is its `struct` format: ``q`` is an i64, and ``504x`` is a
    sequence of 504 zero bytes.
    """

    name: str
    code: str
    meaning: str

    @property
    def size(self) -> int:
        return struct.calcsize(">" + self.code)


@dataclass(frozen=True, slots=True)
class Span:
    """A named range of bytes in a file or frame, with its decoded value."""

    name: str
    offset: int
    size: int
    value: str
    meaning: str


class Layout:
    """A sequence of fixed-size fields without implicit padding."""

    def __init__(self, name: str, *fields: Field) -> None:
        self.name = name
        self.fields = fields
        self.codes = "".join(field.code for field in fields)
        self.struct = struct.Struct(">" + self.codes)
        self.size = self.struct.size

    def spans(self, data: bytes, offset: int = 0) -> Iterator[Span]:
        """Yield a span for each field of the layout, which starts at `offset` in `data`. Raises
        `struct.error` if `data` is too short.
        """
        values = iter(self.struct.unpack_from(data, offset))
        for field in self.fields:
            filler = field.code.endswith("x")
            value = "zeros" if filler else _show(next(values))
            yield Span(field.name, offset, field.size, value, field.meaning)
            offset += field.size


def _show(value: object) -> str:
    if not isinstance(value, bytes):
        return str(value)
    printable = value.isascii() and value.decode("ascii").isprintable()
    return value.decode("ascii") if printable else value.hex()
