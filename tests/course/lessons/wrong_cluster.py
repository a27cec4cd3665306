"""Wrong answers to lessons 05 to 09 and 14, each of which is correct in the most obvious cases."""

from collections.abc import Callable
from statistics import median_high
from typing import Any

from labkit.course.exercises.break_protocol import keeps
from labkit.course.exercises.ensemble_change import must_send, new_ensemble
from labkit.course.exercises.lac import advance, readable
from labkit.course.exercises.quorums import covered, is_lost, write_set
from labkit.course.exercises.recovery import start
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
ADVANCE = {
    "highest complete": lambda last, acks, qa: (
        last + max((i + 1 for i, count in enumerate(acks) if count >= qa), default=0)
    ),
    "all complete": lambda last, acks, qa: last + sum(count >= qa for count in acks),
    "one bookie": lambda last, acks, qa: advance(last, acks, 1),
    "Qa + 1": lambda last, acks, qa: advance(last, acks, qa + 1),
    "exactly Qa": lambda last, acks, qa: advance(last, [count == qa for count in acks], 1),
    "one step": lambda last, acks, qa: last + bool(acks and acks[0] >= qa),
    "from the start": lambda last, acks, qa: advance(-1, acks, qa),
    "two acknowledgements": lambda last, acks, qa: advance(last, acks, min(qa, 2)),
    "three entries": lambda last, acks, qa: advance(last, acks[:3], qa),
    "first is 0": lambda last, acks, qa: max(0, advance(last, acks, qa)),
}


def lacs(newest: list[tuple[int, int]]) -> list[int]:
    return [lac for _, lac in newest]


READABLE = {
    "what is there": lambda known, newest: max([known, *(entry for entry, _ in newest)]),
    "one behind": lambda known, newest: max([known, *(entry - 1 for entry, _ in newest)]),
    "the lowest": lambda known, newest: max(known, min(lacs(newest), default=-1)),
    "the first": lambda known, newest: max(known, newest[0][1]) if newest else known,
    "the last": lambda known, newest: max(known, newest[-1][1]) if newest else known,
    "the newest entry's": lambda known, newest: max(known, max(newest)[1]) if newest else known,
    "forgets": lambda known, newest: max(lacs(newest), default=-1),
    "an upper median": lambda known, newest: (
        max(known, median_high(lacs(newest))) if newest else known
    ),
    "two bookies": lambda known, newest: readable(known, newest[:2]),
    "from 0": lambda known, newest: max(0, readable(known, newest)),
    "31 bits": lambda known, newest: readable(known, [n for n in newest if n[1] < 2**31]),
}
FIRST_ENTRY = {
    "failed entry": lambda lac, failed, lap: failed,
    "next entry": lambda lac, failed, lap: lap + 1,
    "last pushed": lambda lac, failed, lap: lap,
    "last confirmed": lambda lac, failed, lap: lac,
    "always 0": lambda lac, failed, lap: 0,
    "not below 0": lambda lac, failed, lap: max(lac, 0),
    "the smaller": lambda lac, failed, lap: min(failed, lac + 2),
    "if none failed before": lambda lac, failed, lap: failed if failed - lac > 2 else lac + 1,
    "31 bits": lambda lac, failed, lap: (lac + 1) % 2**31,
}
RESEND = {
    "not if acked": lambda p, new, places, acked: p in new and p in places and p not in acked,
    "all without ack": lambda p, new, places, acked: p in places and p not in acked,
    "all new places": lambda p, new, places, acked: p in new,
    "nothing": lambda p, new, places, acked: False,
    "everybody": lambda p, new, places, acked: p in places,
    "if nobody acked": lambda p, new, places, acked: must_send(p, new, places, acked) and not acked,
    "the first new one": lambda p, new, places, acked: p == min(new) and p in places,
    "one of many": lambda p, new, places, acked: must_send(p, new, places, acked) and len(new) < 3,
    "in the range": lambda p, new, places, acked: p in new and places[0] <= p <= places[-1],
}


def filled(old: Any, failed: Any, names: list[str]) -> tuple[str, ...]:
    new = list(old)
    for place, name in zip(failed, names, strict=False):
        new[place] = name
    return tuple(new)


REPLACEMENT = {
    "others move": lambda old, failed, free: tuple(
        [n for at, n in enumerate(old) if at not in failed] + [n for n in free if n not in old]
    )[: len(old)],
    "one for all": lambda old, failed, free: filled(
        old, failed, [n for n in free if n not in old][:1] * len(failed)
    ),
    "nothing changes": lambda old, failed, free: old,
    "shorter": lambda old, failed, free: tuple(n for at, n in enumerate(old) if at not in failed),
    "made up": lambda old, failed, free: filled(old, failed, [f"x{at}" for at in failed]),
    "the first writable": filled,
    "two at most": lambda old, failed, free: new_ensemble(
        old, dict(list(failed.items())[:2]), free
    ),
    "all or none": lambda old, failed, free: (
        new_ensemble(old, failed, free) if len(set(free) - set(old)) >= len(failed) else old
    ),
    "one short": lambda old, failed, free: new_ensemble(old, failed, free[:-1]),
    "others too": lambda old, failed, free: filled(
        old, range(len(old)), [n for n in free if n not in old]
    ),
}
START = {
    "told only": lambda reported, first: max(reported, default=-1),
    "one too far": lambda reported, first: start(reported, first) + 1,
    "segment only": lambda reported, first: first - 1,
    "the lowest": lambda reported, first: max(min(reported, default=-1), first - 1),
    "the first": lambda reported, first: max([*reported[:1], first - 1]),
    "the last": lambda reported, first: max([*reported[-1:], first - 1]),
    "the fragment's first": lambda reported, first: max([*reported, first]),
    "an upper median": lambda reported, first: max(
        [first - 1, *([median_high(reported)] if reported else [])]
    ),
    "31 bits": lambda reported, first: start([each % 2**31 for each in reported], first),
    "from 0": lambda reported, first: max(0, start(reported, first)),
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

DENIES = {
    "all": lambda error: True,
    "none": lambda error: False,
    "silence": lambda error: "NoSuch" in error or "Timeout" in error,
    "unreadable": lambda error: "NoSuch" in error or "Read" in error,
    "wrong digest": lambda error: "NoSuch" in error or "Digest" in error,
    "unreachable": lambda error: "NoSuch" in error or "Not" in error,
    "entry alone": lambda error: error == "BKNoSuchEntryException",
    "ledger alone": lambda error: error == "BKNoSuchLedgerExistsException",
    "all but silence": lambda error: "Timeout" not in error,
    "the short names": lambda error: len(error) <= len("BKNoSuchEntryException"),
}
REFUSES = {
    "nobody": lambda fenced, recovery: False,
    "everybody": lambda fenced, recovery: True,
    "fenced": lambda fenced, recovery: fenced,
    "open": lambda fenced, recovery: not fenced,
    "recovery": lambda fenced, recovery: recovery,
    "all writers": lambda fenced, recovery: not recovery,
    "both": lambda fenced, recovery: fenced and recovery,
    "either": lambda fenced, recovery: fenced or recovery,
    "one or the other": lambda fenced, recovery: fenced != recovery,
    "neither": lambda fenced, recovery: not fenced and not recovery,
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
    "damage is a denial, the rest cannot be read": saying(IO_ERROR, IO_ERROR, NO_LEDGER),
}

WRONG: dict[str, dict[str, Answer]] = {
    "recovery.denies": DENIES,
    "recovery.refuses": REFUSES,
    "break_protocol.answer": ANSWER,
    "quorums.write_set": WRITE_SET,
    "quorums.coverage": COVERAGE,
    "quorums.lost": LOST,
    "lac.advance": ADVANCE,
    "lac.readable": READABLE,
    "ensemble_change.first_entry": FIRST_ENTRY,
    "ensemble_change.resend": RESEND,
    "ensemble_change.replacement": REPLACEMENT,
    "recovery.start": START,
    "repair.lost_bookies": AUDIT,
    "repair.fragments": FRAGMENTS,
    "break_protocol.invariant": INVARIANT,
}
