"""Reads the predictions and hints that students saved (`lessons.record`) and handed in."""

import json
from pathlib import Path
from typing import Any

from labkit.course.grading.results import storable
from labkit.course.grading.submissions import read_regular

_TYPES = {
    "compared": {"name": str, "predicted": str, "truth": str, "is_right": bool},
    "hint": {"name": str, "hint": int},
}
_IGNORED = ("consent", "predicted")
_LONGEST_FILE, _LONGEST_TEXT = 1 << 20, 500
_MOST_HINTS = 3
_MOST_ROWS, _MOST_PROBLEMS = 1000, 10


def rows_of(student: str, files: tuple[Path, ...]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a student's records as rows of the class report, and messages about ignored files and
    lines.
    """
    rows: list[dict[str, Any]] = []
    problems = []
    for file in files:
        try:
            lines = read_regular(file, _LONGEST_FILE).decode("utf-8").splitlines()
        except (OSError, ValueError) as error:
            problems.append(f"{student}: ignoring {file.name}: {error}")
            continue
        found = [_row(student, line) for line in lines if line.strip()]
        rows += [row for row in found if row]
        if bad := found.count(None):
            problems.append(f"{student}: ignoring {bad} invalid lines of {file.name}")
    if len(rows) > _MOST_ROWS:
        problems.append(f"{student}: only the first {_MOST_ROWS} predictions and hints are kept")
    return rows[:_MOST_ROWS], problems[:_MOST_PROBLEMS]


def _row(student: str, line: str) -> dict[str, Any] | None:
    """Return the line as a row, {} if its event is not counted, or None if the line is invalid."""
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
