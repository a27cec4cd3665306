"""Whether Avro schemas can be read with each other, by Apache Avro's library and Pulsar's rules.

Pulsar asks the decoder of Avro's Java library, whose rules differ from those of the comparison that
is used here: a record is read as a record of any name; of a union's enums and fixed types only the
one with the same full name is read; an alias stands for a full name, and that of a field counts
only if the record has the name, too; an enum's symbols are looked at only when data are read.

In Avro: `Resolver.java`; in Pulsar: `AvroSchemaBasedCompatibilityCheck.java`,
`StructSchemaDataValidator.java`.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from avro.compatibility import (
    CompatibleResult,
    ReaderWriterCompatibilityChecker,
    SchemaCompatibilityResult,
    SchemaCompatibilityType,
    SchemaIncompatibilityType,
    check_schema_names,
    incompatible,
)
from avro.errors import AvroException
from avro.name import Name, Names
from avro.schema import (
    EnumSchema,
    Field,
    FixedSchema,
    NamedSchema,
    RecordSchema,
    Schema,
    UnionSchema,
    make_avsc_object,
)

from labkit.system.broker.schemas.types import InvalidDefinitionError

LARGEST_DEFINITION = 128 * 1024
"""In bytes.  The library needs a second for an ill-natured definition of this size."""
_DEEPEST = 100
"""Objects and lists within each other: 25 records, each in a union within the one before."""
_MOST_STEPS = 20_000
"""A third of a second.  Unions within unions could take any number of steps."""
_LONGEST_REASON = 200
_NAME = re.compile(r"(?!\d)[\w$]+")
"""Pulsar also takes letters of any alphabet, and `$`, which is in the names of Java's classes."""


class _TooManyStepsError(Exception):
    """A comparison would keep other clients waiting."""


def parse_definition(data: bytes) -> Schema:
    """The schema that is defined.  Raises `InvalidDefinitionError`."""
    if len(data) > LARGEST_DEFINITION:
        raise InvalidDefinitionError(
            f"it has {len(data)} bytes, and at most {LARGEST_DEFINITION} can be compared"
        )
    names = Names(validate_names=False)
    try:
        # How a logical type is stored decides what can be read.
        document = json.loads(data, object_hook=_without_logical_type)
        if _depth(document) > _DEEPEST:
            raise InvalidDefinitionError(f"it is nested more than {_DEEPEST} levels deep")
        schema = make_avsc_object(document, names, validate_names=False)
        for named in names.names.values():
            _check_names(named)
            _complete_aliases(named)
    except RecursionError:
        raise InvalidDefinitionError("it is nested too deeply") from None
    except (AvroException, ValueError, TypeError, AttributeError) as error:
        # The library relies on the kinds of values that a definition must have.
        raise InvalidDefinitionError(str(error)[:_LONGEST_REASON]) from None
    return schema


def reading_problem(reader: Schema, writer: Schema) -> str:
    """Why `reader` cannot read what `writer` writes; empty if it can."""
    try:
        result = _Checker().get_compatibility(reader, writer)
    except _TooManyStepsError:
        return "they are too large to be compared"
    except RecursionError:
        return "they are nested too deeply"
    if result.compatibility is SchemaCompatibilityType.compatible:
        return ""
    where, why = ", ".join(sorted(result.locations)), ", ".join(sorted(result.messages))
    return f"{result.incompatibilities[0].value}, {why} (at {where})"[:_LONGEST_REASON]


class _Checker(ReaderWriterCompatibilityChecker):
    """The library's comparison with Pulsar's rules, in a limited number of steps."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._steps = 0

    def get_compatibility(self, *args: Any, **kwargs: Any) -> SchemaCompatibilityResult:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _TooManyStepsError
        return super().get_compatibility(*args, **kwargs)

    def calculate_compatibility(
        self, reader: Schema, writer: Schema, location: list[str]
    ) -> SchemaCompatibilityResult:
        if isinstance(reader, RecordSchema) and isinstance(writer, RecordSchema):
            return self.check_reader_writer_record_fields(reader, writer, location)
        if isinstance(reader, EnumSchema) and isinstance(writer, EnumSchema):
            return check_schema_names(reader, writer, location)
        if isinstance(reader, UnionSchema) and isinstance(writer, EnumSchema | FixedSchema):
            for branch in reader.schemas:
                if branch.type == writer.type and writer.fullname in _names(branch):
                    return self.get_compatibility(branch, writer, "union", location)
            missing = SchemaIncompatibilityType.missing_union_branch
            return incompatible(missing, f"no branch is named {writer.fullname}", location)
        return super().calculate_compatibility(reader, writer, location)

    def check_reader_writer_record_fields(
        self, reader: RecordSchema, writer: RecordSchema, location: list[str]
    ) -> SchemaCompatibilityResult:
        # A dictionary for each record: the library makes one for each field.
        written = writer.fields_dict
        if writer.fullname in _names(reader):
            for alias, name in _field_aliases(reader):
                if alias in written:
                    written.setdefault(name, written[alias])
        for at, field in enumerate(reader.fields):
            place = [*location, "fields", str(at)]
            if (found := written.get(field.name)) is not None:
                result = self.get_compatibility(field.type, found.type, "type", place)
                if result.compatibility is SchemaCompatibilityType.incompatible:
                    return result
            elif not field.has_default:
                missing = SchemaIncompatibilityType.reader_field_missing_default_value
                return incompatible(missing, field.name, place)
        return CompatibleResult


def _field_aliases(record: RecordSchema) -> Iterator[tuple[str, str]]:
    """Each alias of a field of the record, and the field's name."""
    for field in record.fields:
        for alias in _aliases(field):
            yield alias, field.name


def _names(schema: NamedSchema) -> list[str]:
    return [schema.fullname, *_aliases(schema)]


def _aliases(named: NamedSchema | Field) -> list[str]:
    """Its aliases.  Raises `InvalidDefinitionError` if they are not names."""
    aliases = named.props.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise InvalidDefinitionError(f"the aliases of {named.name!r} are not a list of names")
    return aliases


def _without_logical_type(node: dict[str, Any]) -> dict[str, Any]:
    node.pop("logicalType", None)
    return node


def _depth(document: Any) -> int:
    parts = document.values() if isinstance(document, dict) else document
    return 1 + max(map(_depth, parts), default=0) if isinstance(document, dict | list) else 0


def _check_names(named: NamedSchema) -> None:
    fields = named.fields if isinstance(named, RecordSchema) else ()
    for each in (named, *fields):
        if not _NAME.fullmatch(each.name):
            raise InvalidDefinitionError(f"{each.name!r} is not a name"[:_LONGEST_REASON])
        _aliases(each)


def _complete_aliases(named: NamedSchema) -> None:
    """Make its aliases full names, as the library's comparison expects them."""
    names = [Name(each, None, named.namespace, validate_name=False) for each in _aliases(named)]
    named.set_prop("aliases", [name.fullname for name in names])
