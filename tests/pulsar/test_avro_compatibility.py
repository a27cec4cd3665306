"""Whether two Avro records can be read with each other's schema."""

import json
from typing import Any

import pytest

from labkit.pulsar.avro_compatibility import incompatibility


def record(**fields: Any) -> bytes:
    """A record; a field is its type, or its type and default."""
    listed = [
        {"name": name, "type": kind[0], "default": kind[1]}
        if isinstance(kind, tuple)
        else {"name": name, "type": kind}
        for name, kind in fields.items()
    ]
    return json.dumps({"type": "record", "name": "R", "fields": listed}).encode()


def nested(inner: bytes) -> Any:
    return json.loads(inner)


FIT = [
    (record(a="int"), record(a="int")),
    (record(a="int"), record(a="int", b=("string", ""))),
    (record(a="int", b=(["null", "string"], None)), record(a="int")),
    (record(a=["null", "int"]), record(a=["int", "null"])),
    (record(a="string"), record(a="bytes")),
    (record(a={"type": "array", "items": "int"}), record(a={"type": "array", "items": "int"})),
    (
        record(a=nested(record(x="int"))),
        record(a=nested(record(x="int", y=("int", 0)))),
    ),
    (b"no json", b"no json"),
]

MISFIT = [
    (record(a="int"), record(a="int", b="string"), "b is only in one"),
    (record(a="int"), record(a="int", b=["null", "string"]), "b is only in one"),
    (record(a="int"), record(a="string"), "a is int in one and string"),
    # FULL: a long does not fit into an int, whichever of them is the older.
    (record(a="int"), record(a="long"), "a is long in one and int"),
    (record(a="int"), record(a=["null", "int"]), "cannot be null|null in one"),
    (
        record(a={"type": "array", "items": "int"}),
        record(a={"type": "array", "items": "string"}),
        "a is int in one and string",
    ),
    (record(a={"type": "map", "values": "int"}), record(a="int"), "a is map in one and int"),
    (record(a=nested(record(x="int"))), record(a=nested(record(x="string"))), "a.x is int"),
    (record(a="int"), b'"int"', "it is record in one and int"),
    (record(a="int"), b"{", "not JSON"),
]


@pytest.mark.parametrize(("old", "new"), FIT)
def test_records_that_fit(old: bytes, new: bytes) -> None:
    assert incompatibility(old, new) == ""
    assert incompatibility(new, old) == ""


@pytest.mark.parametrize(("old", "new", "why"), MISFIT)
def test_records_that_do_not_fit_whichever_is_older(old: bytes, new: bytes, why: str) -> None:
    assert any(part in incompatibility(old, new) for part in why.split("|"))
    assert incompatibility(new, old)


def test_large_unions_are_not_compared_for_ever() -> None:
    of_numbers, other = {"type": "array", "items": "int"}, {"type": "map", "values": "int"}

    def union_of(count: int) -> bytes:
        return record(a=[*[other] * count, of_numbers])

    many = record(a=[of_numbers] * 400)
    assert "too large to be compared" in incompatibility(many, union_of(400))
    assert incompatibility(record(a=[of_numbers]), record(a=[of_numbers, of_numbers])) == ""
