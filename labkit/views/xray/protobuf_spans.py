"""Labels the bytes of a protobuf message with field names, for the byte X-ray.

An encoded field starts with a key, which contains the field number and the wire type. The value
follows, with a length prefix if it is text, bytes or a message.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from labkit.system.model.errors import BKMetadataSerializationException
from labkit.system.model.layout import Span

_FIXED64, _BYTES, _FIXED32 = 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}
_TEXTS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


def field_spans(
    descriptor: Any, meanings: Mapping[str, str], data: bytes, at: int, end: int
) -> Iterator[Span]:
    """Label the bytes from `at` to `end`, which encode a message.

    descriptor: the message's definition, a C or Python descriptor.
    meanings: what its fields mean, by the field's name.

    Raises `BKMetadataSerializationException` if a field extends past `end`.
    """
    while at < end:
        key, begin = varint(data, at)
        field: FieldDescriptor | None = descriptor.fields_by_number.get(key >> 3)
        name = field.name if field is not None else f"field {key >> 3}"
        number, begin, after = _extent(data, begin, key & 7)
        if after > end:
            raise BKMetadataSerializationException(
                f"{name} is truncated: it should end at offset {after}, but the data ends at {end}"
            )
        meaning = meanings.get(name, "")
        if field is not None and field.message_type is not None:
            yield Span(name, at, begin - at, f"{after - begin} bytes", meaning)
            yield from field_spans(field.message_type, meanings, data, begin, after)
        else:
            value = _value(field, number, data[begin:after] if key & 7 == _BYTES else None)
            yield Span(name, at, after - at, value, meaning)
        at = after


def _extent(data: bytes, at: int, kind: int) -> tuple[int, int, int]:
    """Return the number that follows a key, and the start and end of the field's value."""
    if kind in _FIXED_SIZES:
        end = at + _FIXED_SIZES[kind]
        return int.from_bytes(data[at:end], "little"), at, end
    number, behind = varint(data, at)
    if kind == _BYTES:
        return number, behind, behind + number
    return number, at, behind


def _value(field: FieldDescriptor | None, number: int, data: bytes | None) -> str:
    if data is not None:
        is_text = field is not None and field.type in _TEXTS
        return (data.decode(errors="replace") or "(empty)") if is_text else data.hex()
    if field is not None and field.enum_type is not None:
        named = field.enum_type.values_by_number.get(number)
        return str(number) if named is None else str(named.name)
    return str(number - (1 << 64) if number >> 63 else number)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at offset `at`, and the offset of the byte that follows it.

    Raises `BKMetadataSerializationException` if `data` ends within the varint.
    """
    value = shift = 0
    for place in range(at, len(data)):
        value |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            return value, place + 1
    raise BKMetadataSerializationException(f"the number at offset {at} is truncated")
