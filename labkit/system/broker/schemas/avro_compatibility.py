"""Checks whether one Avro schema can read data written with another, by Pulsar's rules.

Pulsar relies on the decoder of Avro's Java library. This module adapts Avro's Python library to the
decoder's rules:

- Record names do not have to match.
- A union's enum and fixed branches must match by full name.
- A record's aliases are compared as full names; field aliases apply only if the record names match.
- Enum symbols are not compared, because the decoder looks at them only when it reads data.

In Avro: `Resolver.java`; in Pulsar: `AvroSchemaBasedCompatibilityCheck.java`,
`StructSchemaDataValidator.java`.
"""

import json
import re
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

MAX_DEFINITION_BYTES = 128 * 1024
"""The library needs up to one second for a malicious definition of this size."""
_MAX_DEPTH = 100
"""The maximum nesting of objects and lists: 25 records, each in a union of the previous one."""
_MAX_STEPS = 20_000
"""This many steps take a third of a second. Nested unions could require any number of steps."""
_MAX_REASON_LENGTH = 200
_NAME = re.compile(r"(?!\d)[\w$]+")
"""Pulsar allows letters of any alphabet, and `$`, which occurs in the names of Java classes."""


class _TooManyStepsError(Exception): ...


def parse_definition(data: bytes) -> Schema:
    if len(data) > MAX_DEFINITION_BYTES:
        raise InvalidDefinitionError(
            f"it has {len(data)} bytes; the maximum is {MAX_DEFINITION_BYTES}"
        )
    names = Names(validate_names=False)
    try:
        # Compatibility depends only on the underlying type of a logical type.
        document = json.loads(data, object_hook=_without_logical_type)
        if _depth(document) > _MAX_DEPTH:
            raise InvalidDefinitionError(f"it is nested more than {_MAX_DEPTH} levels deep")
        schema = make_avsc_object(document, names, validate_names=False)
        for named in names.names.values():
            _check_names(named)
            _qualify_aliases(named)
    except RecursionError:
        raise InvalidDefinitionError("it is nested too deeply") from None
    except (AvroException, ValueError, TypeError, AttributeError) as error:
        # The library does not check the types of the values in a definition.
        raise InvalidDefinitionError(str(error)[:_MAX_REASON_LENGTH]) from None
    return schema


def read_incompatibility(reader: Schema, writer: Schema) -> str:
    """Return why `reader` cannot read data written with `writer`, or "" if it can."""
    try:
        result = _Checker().get_compatibility(reader, writer)
    except _TooManyStepsError:
        return "the schemas are too large to compare"
    except RecursionError:
        return "the schemas are nested too deeply"
    if result.compatibility is SchemaCompatibilityType.compatible:
        return ""
    where, why = ", ".join(sorted(result.locations)), ", ".join(sorted(result.messages))
    return f"{result.incompatibilities[0].value}, {why} (at {where})"[:_MAX_REASON_LENGTH]


class _Checker(ReaderWriterCompatibilityChecker):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._steps = 0

    def get_compatibility(self, *args: Any, **kwargs: Any) -> SchemaCompatibilityResult:
        self._steps += 1
        if self._steps > _MAX_STEPS:
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
        # The library would create this dictionary again for every field.
        written = writer.fields_dict
        if writer.fullname in _names(reader):
            for field in reader.fields:
                for alias in _aliases(field):
                    if alias in written:
                        written.setdefault(field.name, written[alias])
        for index, field in enumerate(reader.fields):
            field_location = [*location, "fields", str(index)]
            if (found := written.get(field.name)) is not None:
                result = self.get_compatibility(field.type, found.type, "type", field_location)
                if result.compatibility is SchemaCompatibilityType.incompatible:
                    return result
            elif not field.has_default:
                missing = SchemaIncompatibilityType.reader_field_missing_default_value
                return incompatible(missing, field.name, field_location)
        return CompatibleResult


def _names(schema: NamedSchema) -> list[str]:
    return [schema.fullname, *_aliases(schema)]


def _aliases(named: NamedSchema | Field) -> list[str]:
    aliases = named.props.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise InvalidDefinitionError(f"the aliases of {named.name!r} must be a list of names")
    return aliases


def _without_logical_type(node: dict[str, Any]) -> dict[str, Any]:
    node.pop("logicalType", None)
    return node


def _depth(document: Any) -> int:
    children = document.values() if isinstance(document, dict) else document
    return 1 + max(map(_depth, children), default=0) if isinstance(document, dict | list) else 0


def _check_names(named: NamedSchema) -> None:
    fields = named.fields if isinstance(named, RecordSchema) else ()
    for each in (named, *fields):
        if not _NAME.fullmatch(each.name):
            raise InvalidDefinitionError(f"{each.name!r} is not a valid name"[:_MAX_REASON_LENGTH])
        _aliases(each)


def _qualify_aliases(named: NamedSchema) -> None:
    """Convert the aliases to full names, which the library's comparison expects."""
    names = [Name(each, None, named.namespace, validate_name=False) for each in _aliases(named)]
    named.set_prop("aliases", [name.fullname for name in names])
