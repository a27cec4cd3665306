from typing import Any

import pytest

from labkit.course.exercises.break_protocol import BASE
from labkit.course.grading.values import EncodingError, decode_value, encode_value
from labkit.system.model.entry import Digest, DigestType, Entry
from labkit.system.storage.garbage import EntryLogMetadata


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1.5,
        "é",
        b"\0\xff",
        [1, (2, {3}), frozenset({4})],
        {(1, 2): [b"x"]},
        DigestType.CRC32C,
        Entry(5, 1, -1, 7, b"payload"),
        EntryLogMetadata(1, 100, {5: 60}),
        BASE,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_is_the_same_on_the_other_side_of_the_border(value: Any) -> None:
    crossed = decode_value(encode_value(value))
    assert crossed == value
    assert type(crossed) is type(value)


def test_a_function_crosses_as_a_number() -> None:
    assert encode_value([len], lambda _: 7) == [{"call": 7}]
    assert decode_value([{"call": 7}], lambda number: number) == [7]


@pytest.mark.parametrize(
    "form",
    [
        {"value": ["os", "system", ["true"]]},
        {"value": ["labkit.system.model.entry", "Path", []]},
        {"value": ["labkit.system.model.entry", "Digest", {"unknown": 1}]},
        {"pickle": "gASVAAAA"},
        {"call": 1},
        {"set": [[1]]},
        {},
        {"bytes": "!"},
    ],
    ids=str,
)
def test_no_other_form_becomes_a_value(form: Any) -> None:
    with pytest.raises(EncodingError):
        decode_value(form)


def test_an_object_of_a_stranger_does_not_cross() -> None:
    class Strange(Digest):
        pass

    with pytest.raises(EncodingError, match="Strange"):
        encode_value(Strange.__new__(Strange))
