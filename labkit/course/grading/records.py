"""Reads the records that students handed in, which contain predictions and hints
(`checking.record`) and answers to the concept inventory (`inventory.sitting`).
"""

import json
from pathlib import Path
from typing import Any

from labkit.course.grading.results import storable
from labkit.course.grading.submissions import read_regular
from labkit.course.inventory.sitting import AFTER, BEFORE, RIGHT, is_sitting, judged

_TYPES = {
    "compared": {"name": str, "predicted": str, "truth": str, "is_right": bool},
    "hint": {"name": str, "hint": int},
}
_IGNORED = ("consent", "predicted")
_SITTING = "inventory"
_MAX_FILE_BYTES, _MAX_TEXT = 1 << 20, 500
_MAX_HINTS = 3
_MAX_ROWS, _MAX_PROBLEMS = 1000, 10


def rows_of(student: str, files: tuple[Path, ...]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a student's records as rows of the class report, together with messages about ignored
    files and lines.

    If a student has taken the inventory more than once, only the first sitting before the course
    and the last one after it count.
    """
    rows: list[dict[str, Any]] = []
    sittings: dict[str, dict[str, Any]] = {}
    problems = []
    for file in files:
        try:
            lines = read_regular(file, _MAX_FILE_BYTES).decode("utf-8").splitlines()
        except (OSError, ValueError) as error:
            problems.append(f"{student}: ignoring {file.name}: {error}")
            continue
        noted = [_noted(line) for line in lines if line.strip()]
        for each in noted:
            if each and each["event"] == _SITTING:
                if each["when"] == AFTER or BEFORE not in sittings:
                    sittings[each["when"]] = each
            elif each:
                rows.append({"student": student, **each})
        if bad := noted.count(None):
            problems.append(f"{student}: ignoring {bad} invalid lines of {file.name}")
    if len(rows) > _MAX_ROWS:
        problems.append(f"{student}: only the first {_MAX_ROWS} predictions and hints are kept")
    del rows[_MAX_ROWS:]
    for when, each in sittings.items():
        rows += [
            {"student": student, "event": when, "name": name, "predicted": outcome}
            | {"is_right": outcome == RIGHT}
            for name, outcome in judged(each["seed"], each["answers"])
        ]
    return rows, problems[:_MAX_PROBLEMS]


def _noted(line: str) -> dict[str, Any] | None:
    """Return the event on the line, {} if events of this kind are not counted, or None if the line
    is invalid.
    """
    try:
        noted = json.loads(line)
    except (ValueError, RecursionError):
        return None
    event = noted.get("event") if isinstance(noted, dict) else None
    if event in _IGNORED:
        return {}
    if event == _SITTING:
        return noted if is_sitting(noted) else None
    types = _TYPES.get(event) if isinstance(event, str) else None
    if types is None or any(type(noted.get(name)) is not kind for name, kind in types.items()):
        return None
    if "hint" in types and not 1 <= noted["hint"] <= _MAX_HINTS:
        return None
    return {"event": event, **{name: _cut(noted[name]) for name in types}}


def _cut(value: Any) -> Any:
    return storable(value[:_MAX_TEXT]) if isinstance(value, str) else value
