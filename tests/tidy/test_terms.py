"""BookKeeper's words: a ledger's metadata has segments; a repair works on fragments."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

WITHOUT_REPAIRS = ("model", "metadata", "client", "storage", "bookie", "trace", "topic", "pulsar")
"""Packages that know ensembles by the metadata alone."""

# The event at the end of a repair, and BookKeeper's class for it.
_OF_A_REPAIR = re.compile(r"fragment\.replicated|for the fragment from|LedgerFragmentReplicator")


def test_only_repairs_speak_of_fragments() -> None:
    found = []
    for package in WITHOUT_REPAIRS:
        for file in sorted((ROOT / "labkit" / package).rglob("*.py")):
            for number, line in enumerate(file.read_text().splitlines(), 1):
                if not file.stem.endswith("_pb2") and re.search(
                    r"(?i)\bfragments?\b", _OF_A_REPAIR.sub("", line)
                ):
                    found.append(f"{file.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []
