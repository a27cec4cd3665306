"""Whether two Avro records can be read with each other's schema.

A field that only one of them has needs a default there: a reader with that schema uses it for data
written with the other.  A field of both must have the same type, or one that can be promoted to the
other (int, long, float, double; string and bytes).

Aliases, and types that are named in one place and used in another, are ignored.

In Avro: `SchemaCompatibility.java`; in Pulsar: `AvroSchemaBasedCompatibilityCheck.java`.
"""

import json
from typing import Any

_GROWS_INTO = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


_MOST_STEPS = 100_000
"""About a tenth of a second.  Unions within unions could take any number of steps."""


class _TooManyStepsError(Exception):
    """A comparison would keep other clients waiting."""


def incompatibility(old: bytes, new: bytes) -> str:
    """Why one of these records cannot read the other; empty if both can."""
    if old == new:
        return ""
    try:
        older, newer = json.loads(old), json.loads(new)
        comparison = _Comparison()
        return comparison.problem(older, newer, "") or comparison.problem(newer, older, "")
    except ValueError:
        return "one of them is not JSON"
    except RecursionError:
        return "one of them is nested too deeply"
    except _TooManyStepsError:
        return "they are too large to be compared"


class _Comparison:
    """A comparison of two schemas, in a limited number of steps."""

    def __init__(self) -> None:
        self._steps = 0

    def problem(self, written: Any, reader: Any, where: str) -> str:
        """Why data written with the one schema cannot be read with the other."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _TooManyStepsError
        if isinstance(written, list):
            problems = (self.problem(branch, reader, where) for branch in written)
            return next(filter(None, problems), "")
        if isinstance(reader, list):
            problems = (self.problem(written, branch, where) for branch in reader)
            fits = any(not problem for problem in problems)
            return "" if fits else f"{where or 'it'} cannot be {_kind(written)}"
        kinds = _kind(written), _kind(reader)
        if kinds[1] in _GROWS_INTO.get(kinds[0], ()):
            return ""
        if kinds[0] != kinds[1]:
            return f"{where or 'it'} is {kinds[0]} in one and {kinds[1]} in the other"
        if kinds[0] == "record":
            return self._problem_of_fields(written, reader, where)
        inner = {"array": "items", "map": "values"}.get(kinds[0])
        if inner is not None and isinstance(written, dict) and isinstance(reader, dict):
            return self.problem(written.get(inner), reader.get(inner), where)
        return ""

    def _problem_of_fields(self, written: Any, reader: Any, where: str) -> str:
        there = _fields(written)
        for own_name, field in _fields(reader).items():
            name = f"{where}.{own_name}" if where else f"the field {own_name}"
            if own_name in there:
                problem = self.problem(there[own_name].get("type"), field.get("type"), name)
                if problem:
                    return problem
            elif "default" not in field:
                return f"{name} is only in one and has no default"
        return ""


def _fields(record: Any) -> dict[str, dict[str, Any]]:
    """A record's fields by name; an item without a name is not a field."""
    fields = record.get("fields") if isinstance(record, dict) else None
    if not isinstance(fields, list):
        return {}
    return {str(f["name"]): f for f in fields if isinstance(f, dict) and "name" in f}


def _kind(schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else schema
    return _kind(kind) if isinstance(kind, dict) else str(kind)
