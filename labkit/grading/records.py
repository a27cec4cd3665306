"""records: the predictions and hints that students saved (`lessons.record`) and handed in."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("student", "event", "name", "predicted", "truth")),
        ("is_right", pa.bool_()),
        ("hint", pa.int64()),
    ]
)
_TYPES = {
    "compared": {"name": str, "predicted": str, "truth": str, "is_right": bool},
    "hint": {"name": str, "hint": int},
}
_IGNORED = ("consent", "predicted")
_LONGEST_FILE, _LONGEST_TEXT = 1 << 20, 500
_MOST_HINTS = 3


def rows_of(student: str, files: tuple[Path, ...]) -> tuple[list[dict[str, Any]], list[str]]:
    """A student's lines as rows of `SCHEMA`, and what could not be read, in words."""
    rows: list[dict[str, Any]] = []
    problems = []
    for file in files:
        try:
            if file.is_symlink() or file.stat().st_size > _LONGEST_FILE:
                raise ValueError("it is a link, or larger than 1 MB")
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            problems.append(f"{student}: {file.name} is left out: {error}")
            continue
        found = [_row(student, line) for line in lines if line.strip()]
        rows += [row for row in found if row]
        if bad := found.count(None):
            problems.append(f"{student}: {bad} lines of {file.name} are left out")
    return rows, problems


def _row(student: str, line: str) -> dict[str, Any] | None:
    """A row, {} for a line that is not counted, None for a line that is not one of labkit's."""
    try:
        noted = json.loads(line)
    except (ValueError, RecursionError):
        return None
    event = noted.get("event") if isinstance(noted, dict) else None
    if event in _IGNORED:
        return {}
    types = _TYPES.get(event) if isinstance(event, str) else None
    if types is None or any(type(noted.get(name)) is not kind for name, kind in types.items()):
        return None
    if not 1 <= noted.get("hint", 1) <= _MOST_HINTS:
        return None
    return {"student": student, "event": event, **{name: _cut(noted[name]) for name in types}}


def _cut(value: Any) -> Any:
    return storable(value[:_LONGEST_TEXT]) if isinstance(value, str) else value


def storable(text: str) -> str:
    """A text that UTF-8 can hold: "?" for each half of a surrogate pair, which JSON and Python's
    strings can hold.
    """
    return text.encode("utf-8", "replace").decode("utf-8")
