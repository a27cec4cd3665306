"""BookKeeper's words: a ledger's metadata has segments; a repair works on fragments."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

WITHOUT_REPAIRS = (
    *("system/model", "system/metadata", "system/client", "system/storage", "system/bookie"),
    *("system/trace", "system/topic", "system/broker", "views/spark"),
    "course",  # but what is on repair
)
"""Packages that know ensembles by the metadata alone."""
_OTHER_LESSONS = re.compile(r"repair|09_re_replication|^slides|^blocked_answers")
"""Those on repair; a slide's fragment is another thing, which nbconvert names."""

# The event at the end of a repair, BookKeeper's class for it, and a check of the specification.
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
