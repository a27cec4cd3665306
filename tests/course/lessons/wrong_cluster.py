"""Wrong answers to lessons 05, 09 and 14, each of which is correct in the most obvious cases."""

from collections.abc import Callable
from typing import Any

from labkit.course.exercises.break_protocol import keeps
from labkit.course.exercises.quorums import covered, is_lost, write_set
from labkit.course.exercises.repair import missing_copies
from labkit.system.autorecovery.audit_rules import when_to_audit

Answer = Callable[..., Any]


def striped(first: Callable[[int, int, int], int]) -> Answer:
    return lambda e, size, qw: tuple((first(e, size, qw) + i) % size for i in range(qw))


WRITE_SET = {
    "the same for all": lambda e, size, qw: tuple(range(qw)),
    "no overlap": striped(lambda e, size, qw: e * qw),
    "sorted": lambda e, size, qw: tuple(sorted(write_set(e, size, qw))),
    "backwards": lambda e, size, qw: write_set(e, size, qw)[::-1],
    "31 bits": striped(lambda e, size, qw: e % 2**31),
    "one digit": striped(lambda e, size, qw: e % 10),
    "one too few": lambda e, size, qw: write_set(e, size, qw - 1),
    "from entry 1": striped(lambda e, size, qw: e + 1),
    "modulo Qw": striped(lambda e, size, qw: e % qw),
    "as a float": striped(lambda e, size, qw: int(e / size * size + 0.001) if e < 100 else e + 1),
}


def silent_in_sets(known: frozenset[int], size: int, qw: int) -> list[int]:
    return [sum((first + i) % size not in known for i in range(qw)) for first in range(size)]


COVERAGE = {
    "any": lambda known, size, qw, qa: bool(known),
    "Qa answers": lambda known, size, qw, qa: len(known) >= qa,
    "Qw answers": lambda known, size, qw, qa: len(known) >= qw,
    "all": lambda known, size, qw, qa: len(known) == size,
    "a majority": lambda known, size, qw, qa: 2 * len(known) > size,
    "no stripes": lambda known, size, qw, qa: size - len(known) < qa,
    "one too few": lambda known, size, qw, qa: max(silent_in_sets(known, size, qw)) <= qa,
    "one set": lambda known, size, qw, qa: silent_in_sets(known, size, qw)[0] < qa,
    "some set": lambda known, size, qw, qa: min(silent_in_sets(known, size, qw)) < qa,
    "sets that do not wrap": lambda known, size, qw, qa: (
        max(silent_in_sets(known, size, qw)[: size - qw + 1]) < qa
    ),
    "five bookies": lambda known, size, qw, qa: (
        covered(known, size, qw, qa) if size <= 5 else len(known) == size
    ),
}
LOST = {
    "any denial": lambda denied, silent, qw, qa: denied >= 1,
    "Qa denials": lambda denied, silent, qw, qa: denied >= qa,
    "a majority": lambda denied, silent, qw, qa: 2 * denied > qw,
    "silence counts": lambda denied, silent, qw, qa: denied + silent > qw - qa,
    "all": lambda denied, silent, qw, qa: denied == qw,
    "one too many": lambda denied, silent, qw, qa: denied > qw - qa + 1,
    "one too few": lambda denied, silent, qw, qa: denied >= qw - qa,
    "only if nobody is silent": lambda denied, silent, qw, qa: (
        is_lost(denied, silent, qw, qa) and not silent
    ),
    "five bookies": lambda denied, silent, qw, qa: (
        is_lost(denied, silent, qw, qa) if qw <= 5 else denied == qw
    ),
}
AUDIT = {
    "at once": lambda missing, delay, now: now if missing else None,
    "one by one": lambda missing, delay, now: min(missing.values()) + delay if missing else None,
    "from now on": lambda missing, delay, now: (
        now + delay if len(missing) == 1 else when_to_audit(missing, delay, now)
    ),
    "never": lambda missing, delay, now: None,
    "the delay alone": lambda missing, delay, now: (
        delay if len(missing) == 1 else when_to_audit(missing, delay, now)
    ),
    "not before now": lambda missing, delay, now: (
        max(now, min(missing.values()) + delay) if missing else None
    ),
    "three": lambda missing, delay, now: (
        now if len(missing) > 2 else min(missing.values()) + delay if missing else None
    ),
    "exactly two": lambda missing, delay, now: (
        now if len(missing) == 2 else min(missing.values()) + delay if missing else None
    ),
    "the last to go": lambda missing, delay, now: (
        max(missing.values()) + delay if missing else None
    ),
    "0 for never": lambda missing, delay, now: (
        when_to_audit(missing, delay, now) if missing else 0.0
    ),
}


def missing(is_short: Callable[[str, Any, Any], bool]) -> Answer:
    return lambda ensemble, registered, failures: [
        at for at, name in enumerate(ensemble) if is_short(name, registered, failures.get(at, ()))
    ]


FRAGMENTS = {
    "not registered": missing(lambda name, there, said: name not in there),
    "failures": missing(lambda name, there, said: bool(said)),
    "denials": missing(
        lambda name, there, said: name not in there or "BKNoSuchEntryException" in said
    ),
    "not the silent": missing(
        lambda name, there, said: name not in there or bool(set(said) - {"BKTimeoutException"})
    ),
    "all": lambda ensemble, registered, failures: [*range(len(ensemble))],
    "the first": lambda *question: missing_copies(*question)[:1],
    "five places": lambda ensemble, *rest: [n for n in missing_copies(ensemble, *rest) if n < 5],
    "one error": missing(lambda name, there, said: name not in there or len(said) == 1),
    "by its number": lambda ensemble, registered, failures: [
        at for at in range(len(ensemble)) if f"b{at}" not in registered or at in failures
    ],
    "digest is fine": missing(
        lambda name, there, said: name not in there or bool(set(said) - {"BKDigestMatchException"})
    ),
}


def counting(key: Callable[[Any], Any], least: int = 2, twice: bool = False) -> Answer:
    """Return an invariant that counts acknowledgements; the parameters vary how it counts."""

    def holds(events: list[Any]) -> bool:
        acks: dict[Any, list[str]] = {}
        for event in events:
            if event.kind == "add.acked":
                acks.setdefault(key(event), []).append(event.peer)
            got = acks.get(key(event), [])
            if event.kind == "lac.advanced" and len(got if twice else set(got)) < least:
                return False
        return True

    return holds


def whole(event: Any) -> tuple[str, int, int]:
    return event.node, event.ledger, event.entry


INVARIANT = {
    "entry alone": counting(lambda event: event.entry),
    "no node": counting(lambda event: (event.ledger, event.entry)),
    "no entry": counting(lambda event: (event.node, event.ledger)),
    "no ledger": counting(lambda event: (event.node, event.entry)),
    "messages": counting(whole, twice=True),
    "one": counting(whole, 1),
    "three": counting(whole, 3),
    "31 bits": counting(lambda event: (event.node, event.ledger, min(event.entry, 2**31))),
    "in the end": lambda events: all(
        len({e.peer for e in events if e.kind == "add.acked" and whole(e) == whole(event)}) > 1
        for event in events
        if event.kind == "lac.advanced"
    ),
    "the first client": lambda events: keeps([e for e in events if e.node == "w"]),
    "the first entries": lambda events: keeps([e for e in events if e.entry < 2]),
    "true": lambda events: True,
}

HERE, EMPTY, DAMAGED = "no such ledger", "no such entry", "damaged"


def saying(ledger: str, entry: str, damaged: str) -> Answer:
    said = {HERE: ledger, EMPTY: entry, DAMAGED: damaged}
    return lambda met: next(answer for words, answer in said.items() if words in met)


NO_LEDGER, NO_ENTRY, IO_ERROR = "NO_LEDGER", "NO_ENTRY", "IO_ERROR"
ANSWER = {
    "2908": saying(NO_LEDGER, NO_ENTRY, NO_ENTRY),
    "no ledger for damage": saying(NO_LEDGER, NO_ENTRY, NO_LEDGER),
    "denies nothing": saying(IO_ERROR, IO_ERROR, IO_ERROR),
    "denies ledgers": saying(NO_LEDGER, IO_ERROR, IO_ERROR),
    "denies entries": saying(IO_ERROR, NO_ENTRY, IO_ERROR),
    "the other way round": saying(IO_ERROR, IO_ERROR, NO_ENTRY),
    "another code": saying(NO_LEDGER, NO_ENTRY, "EIO"),
    "the two denials swapped": saying(NO_ENTRY, NO_LEDGER, IO_ERROR),
    "no ledger for a missing entry": saying(NO_LEDGER, NO_LEDGER, IO_ERROR),
    "damage is a denial, the rest cannot be read": saying(IO_ERROR, IO_ERROR, NO_LEDGER),
}

WRONG: dict[str, dict[str, Answer]] = {
    "break_protocol.answer": ANSWER,
    "quorums.write_set": WRITE_SET,
    "quorums.coverage": COVERAGE,
    "quorums.lost": LOST,
    "repair.lost_bookies": AUDIT,
    "repair.fragments": FRAGMENTS,
    "break_protocol.invariant": INVARIANT,
}
