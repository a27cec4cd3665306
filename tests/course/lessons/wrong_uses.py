"""Wrong answers to lesson 15, each of which is correct in the most obvious cases."""

from collections.abc import Callable
from typing import Any

from labkit.course.runs.uses.offset_store import newest
from labkit.course.runs.uses.snapshot_store import removable

Answer = Callable[..., Any]


def kept(records: Any, keep: Callable[[list[Any]], Any]) -> dict[str, Any]:
    """Return the offset that `keep` chooses for each group, omitting groups with offset None."""
    of: dict[str, list[Any]] = {}
    for group, offset in records:
        of.setdefault(group, []).append(offset)
    answers = {group: keep(offsets) for group, offsets in of.items()}
    return {group: offset for group, offset in answers.items() if offset is not None}


def numbers(offsets: list[Any]) -> list[int]:
    return [offset for offset in offsets if offset is not None]


OFFSETS: dict[str, Answer] = {
    "the largest": lambda records: kept(records, lambda o: max(numbers(o), default=None)),
    "the first": lambda records: kept(records, lambda o: o[0]),
    "never removed": lambda records: kept(records, lambda o: next(reversed(numbers(o)), None)),
    "removed for ever": lambda records: kept(records, lambda o: None if None in o else o[-1]),
    "removed is 0": lambda records: kept(records, lambda o: 0 if o[-1] is None else o[-1]),
    "None is kept": dict,
    "0 counts as none": lambda records: kept(records, lambda o: o[-1] or None),
    "31 bits": lambda records: kept(records, lambda o: o[-1] and o[-1] % 2**31),
    "one case": lambda records: {group.lower(): at for group, at in newest(records).items()},
    "the last record alone": lambda records: newest(records[-1:]),
    "as text": lambda records: kept(records, lambda o: max(o, key=str)),
    "None clears all": lambda records: newest(
        records[max((n for n, (_, offset) in enumerate(records) if offset is None), default=0) :]
    ),
    "0 keeps the offset before": lambda records: kept(
        records, lambda o: o[-1] if o[-1] != 0 else next(reversed([0, *filter(None, o)]))
    ),
    "back to the start": lambda records: newest([r for r in records if r[1] != 0]),
}


def of_each(rule: Callable[[int, int, int, int], bool]) -> Answer:
    """Return an answer that treats a ledger as garbage if `rule` returns true.

    The rule receives the ledger id, its version, and the version and ledger id that are in use.
    """
    return lambda ledgers, named: [
        ledger_id
        for ledger_id, name, version in ledgers
        if name in named and rule(ledger_id, version, *named[name])
    ]


GARBAGE = {
    "nothing points to it": lambda ledgers, named: [
        each[0] for each in ledgers if each[0] not in {ledger for _, ledger in named.values()}
    ],
    "not named": of_each(lambda ledger, version, newest, at: ledger != at),
    "older versions": of_each(lambda ledger, version, newest, at: version < newest),
    "up to this version": of_each(lambda ledger, version, newest, at: version <= newest),
    "smaller ids": of_each(lambda ledger, version, newest, at: ledger < at),
    "this version alone": of_each(
        lambda ledger, version, newest, at: version == newest and ledger != at
    ),
    "versions as text": of_each(
        lambda ledger, version, newest, at: ledger != at and str(version) <= str(newest)
    ),
    "the version before": of_each(
        lambda ledger, version, newest, at: ledger != at and newest - 1 <= version <= newest
    ),
    "newer, too": of_each(lambda ledger, version, newest, at: version != newest),
    "31 bits": of_each(
        lambda ledger, version, newest, at: ledger % 2**31 != at % 2**31 and version <= newest
    ),
    "one name": lambda ledgers, named: removable(
        [(ledger, "names", version) for ledger, _, version in ledgers], named
    ),
    "one digit": of_each(
        lambda ledger, version, newest, at: ledger != at and version % 10 <= newest % 10
    ),
    "none": lambda ledgers, named: [],
    "all of a name": of_each(lambda ledger, version, newest, at: True),
}

WRONG = {"build_on_it.offsets": OFFSETS, "build_on_it.garbage": GARBAGE}
