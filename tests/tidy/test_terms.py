"""Tests the use of BookKeeper's terms: metadata has segments, and repairs work on fragments."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

WITHOUT_REPAIRS = (
    *("system/model", "system/metadata", "system/client", "system/storage", "system/bookie"),
    *("system/trace", "system/topic", "system/broker", "views/spark"),
    "course",  # except the modules about repair
)
"""Packages that see ensembles only in the metadata."""
_OTHER_LESSONS = re.compile(r"repair|09_re_replication|lesson_09|^slides|^blocked_answers")
"""The modules about repair, and those that use nbconvert's word for part of a slide."""

# The event at the end of a repair, BookKeeper's class for it, and an invariant of the TLA+ spec.
_OF_A_REPAIR = re.compile(
    r"fragment\.replicated|for the fragment from|LedgerFragmentReplicator|OnlyValidFragments"
)


def test_only_repairs_speak_of_fragments() -> None:
    found = []
    for package in WITHOUT_REPAIRS:
        for file in sorted((ROOT / "labkit" / package).rglob("*.py")):
            if package == "course" and _OTHER_LESSONS.search(file.name):
                continue
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                if not file.stem.endswith("_pb2") and re.search(
                    "(?i)fragment", _OF_A_REPAIR.sub("", line)
                ):
                    found.append(f"{file.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []
