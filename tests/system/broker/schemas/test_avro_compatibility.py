"""Test whether data written with one Avro schema can be read with another.

The expected results come from Pulsar's own class, AvroSchemaCompatibilityCheck of version 4.2.4.
"""

import json
from typing import Any

import pytest

from labkit.system.broker.schemas.avro_compatibility import (
    MAX_DEFINITION_BYTES,
    parse_definition,
    read_incompatibility,
)
from labkit.system.broker.schemas.types import InvalidDefinitionError
from tests.processor_time import processor_time


def record(**fields: Any) -> dict[str, Any]:
    """Return a record schema; a field is given as its type, or as its type and default."""
    listed = [
        {"name": name, "type": kind[0], "default": kind[1]}
        if isinstance(kind, tuple)
        else {"name": name, "type": kind}
        for name, kind in fields.items()
    ]
    return {"type": "record", "name": "R", "fields": listed}


def enum(name: str, *symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": symbols, **more}


def fixed(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def problem(reader: object, writer: object) -> str:
    definitions = (json.dumps(each).encode() for each in (reader, writer))
    return read_incompatibility(*map(parse_definition, definitions))


POINT = {**record(x="int"), "name": "Point"}
WIDER_POINT = {**record(x="int", y=("int", 0)), "name": "Point"}
TREE = {**record(left=(["null", "Tree"], None)), "name": "Tree"}
WIDER_TREE = {**record(left=(["null", "Tree"], None), x=("int", 0)), "name": "Tree"}
RENAMED_FIELD = record(a="int")
RENAMED_FIELD["fields"] = [{"name": "b", "type": "int", "aliases": ["a"]}]

READABLE = [
    (record(a="int", b=("string", "")), record(a="int")),
    (record(a="int"), record(a="int", b="string")),
    (record(a=["null", "int"]), record(a=["int", "null"])),
    (record(a=["null", "int"]), record(a="int")),
    (record(a="long"), record(a="int")),
    (record(a="double"), record(a=["int", "float"])),
    (record(a="string"), record(a="bytes")),
    (record(a={"type": "array", "items": "long"}), record(a={"type": "array", "items": "int"})),
    (record(a=WIDER_POINT), record(a=POINT)),
    # A name is used both before and after the changed definition.
    (record(a=(["null", POINT], None), b="Point"), record(b=POINT)),
    (record(b=POINT), record(a=(["null", POINT], None), b="Point")),
    (TREE, WIDER_TREE),
    (WIDER_TREE, TREE),
    # Names of records are ignored.
    ({**record(a="int"), "name": "New"}, record(a="int")),
    (record(a=["null", {**POINT, "name": "Spot"}]), record(a=POINT)),
    (record(a={"type": "int", "logicalType": "date"}), record(a="int")),
    (record(a=fixed("F", 4)), record(a=fixed("n.F", 4))),
    (record(a=["null", fixed("n.F", 4)]), record(a=["null", fixed("n.F", 4)])),
    (record(a=fixed("G", 4, aliases=["F"])), record(a=fixed("F", 4))),
    (record(a=enum("n.G", "X", aliases=["F"])), record(a=enum("n.F", "X"))),
    # Enum symbols are only compared when data are read.
    (record(a=enum("E", "X")), record(a=enum("E", "X", "Y"))),
    (RENAMED_FIELD, record(a="int")),
    ("int", "int"),
    ("long", "int"),
]

UNREADABLE = [
    (record(a="int", b="string"), record(a="int"), "missing_default_value, b (at /fields/1"),
    (record(a="int"), record(a="long"), "reader type: int not compatible with writer type: long"),
    (record(a="int"), record(a=["null", "int"]), "reader type: int not compatible"),
    (record(a="int"), record(a="string"), "type_mismatch"),
    (record(a={"type": "map", "values": "int"}), record(a="int"), "reader type: map"),
    (record(a={**POINT, "fields": []}), record(a="int"), "reader type: record"),
    (record(a=POINT), "int", "reader type: record"),
    (record(b="int"), record(a="int"), "missing_default_value, b"),
    (record(a=fixed("F", 8)), record(a=fixed("F", 4)), "fixed_size_mismatch"),
    (record(a=fixed("G", 4)), record(a=fixed("F", 4)), "name_mismatch"),
    (record(a=["null", fixed("m.F", 4)]), record(a=fixed("n.F", 4)), "no branch is named n.F"),
    (record(a=enum("F", "X")), record(a=enum("E", "X")), "name_mismatch"),
    (record(a=["null", enum("m.E", "X")]), record(a=enum("n.E", "X")), "no branch is named n.E"),
    ({**RENAMED_FIELD, "name": "S"}, record(a="int"), "missing_default_value, b"),
    (TREE, {**WIDER_TREE, "fields": [{"name": "left", "type": "string"}]}, "missing_union_branch"),
    ("int", "long", "type_mismatch"),
]


@pytest.mark.parametrize(("reader", "writer"), READABLE)
def test_what_can_be_read(reader: object, writer: object) -> None:
    assert problem(reader, writer) == ""


@pytest.mark.parametrize(("reader", "writer", "reason"), UNREADABLE)
def test_what_cannot_be_read(reader: object, writer: object, reason: str) -> None:
    assert reason in problem(reader, writer)


@pytest.mark.parametrize(
    "definition",
    [
        *(b'"hello"', b'""', b"", b"[", b"{", b"{}", b"7", b"null", b"\xff", b'{"type":"nope"}'),
        json.dumps({"type": POINT}).encode(),
        json.dumps(record(a="Unknown")).encode(),
        json.dumps({**POINT, "name": "two words"}).encode(),
        json.dumps({**POINT, "name": ""}).encode(),
        json.dumps({**POINT, "fields": {}}).encode(),
        json.dumps({**POINT, "fields": [7]}).encode(),
        json.dumps({**POINT, "fields": [{"name": "1a", "type": "int"}]}).encode(),
        json.dumps({**POINT, "aliases": [7]}).encode(),
        json.dumps(record(a=fixed("F", -1))).encode(),
        json.dumps(record(a=enum("E", "X", "X"))).encode(),
        json.dumps(record(a=enum("E", "X", default="Y"))).encode(),
    ],
)
def test_garbage_is_no_definition(definition: bytes) -> None:
    with pytest.raises(InvalidDefinitionError):
        parse_definition(definition)


@pytest.mark.parametrize("name", ["Outer$Inner", "Straße", "_"])
def test_names_of_javas_classes_are_names(name: str) -> None:
    assert problem({**POINT, "name": name}, POINT) == ""


# Bounds on the processing time of untrusted definitions


def nested(depth: int, inner: object) -> bytes:
    for _ in range(depth):
        inner = {"type": "array", "items": inner}
    return json.dumps(inner).encode()


@pytest.mark.parametrize("depth", [101, 1000, 20_000])
def test_a_definition_that_is_nested_too_deeply_is_rejected(depth: int) -> None:
    definition = b'{"type":"array","items":' * depth + b'"int"' + b"}" * depth
    with pytest.raises(InvalidDefinitionError, match=r"nested|bytes; the maximum is"):
        parse_definition(definition)


def test_a_definition_that_is_too_large_is_rejected_and_the_largest_takes_a_moment() -> None:
    with pytest.raises(InvalidDefinitionError, match="the maximum is 131072"):
        parse_definition(b" " * MAX_DEFINITION_BYTES + b'"int"')
    mistake = {"type": "nope", "doc": "x" * (MAX_DEFINITION_BYTES - 3000)}
    with processor_time(20.0), pytest.raises(InvalidDefinitionError) as rejected:
        parse_definition(nested(99, mistake))
    assert len(str(rejected.value)) <= 200


def test_a_comparison_ends_after_a_bounded_number_of_steps() -> None:
    unions = [
        [{"type": "record", "name": f"{letter}{at}", "fields": []} for at in range(1000)]
        for letter in "ab"
    ]
    for branches in unions:
        for at, branch in enumerate(branches):
            branch["fields"] = record(**{f"f{at}": "int"})["fields"]
    with processor_time(20.0):
        assert problem(*unions) == "the schemas are too large to compare"


def test_many_fields_are_compared_in_a_moment() -> None:
    wide = record(**{f"f{at}": "int" for at in range(3000)})
    with processor_time(20.0):
        assert problem(wide, wide) == ""
