"""Wrong versions of the small rules in a client's parts, each of which is correct in the most
obvious cases.

A client with a wrong rule is the solution in which only this rule is different: a line of the
solution calls `rule` instead.
"""

from collections.abc import Callable
from statistics import median_high
from typing import Any

Answer = Callable[..., Any]
Changes = tuple[tuple[str, str], ...]


def advance(last: int, acks: list[int], quorum: int) -> int:
    """Return LastAddConfirmed, given the number of acknowledgements of each later entry."""
    for count in acks:
        if count < quorum:
            break
        last += 1
    return last


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


def readable(known: int, newest: list[tuple[int, int]]) -> int:
    """Return how far a reader may read, given each bookie's newest entry and the LAC in it."""
    return max([known, *lacs(newest)])


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
}


def must_send(index: int, replaced: frozenset[int], stripe: list[int], acked: list[int]) -> bool:
    """Return whether a pending entry must be sent to the bookie at this index again."""
    return index in replaced and index in stripe


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


def new_ensemble(
    old: tuple[str, ...], failed: dict[int, str], writable: list[str]
) -> tuple[str, ...]:
    """Return the ensemble in which writable bookies replace failed ones, as far as possible."""
    return filled(old, sorted(failed), [name for name in writable if name not in old])


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


def start(reported: list[int], first: int) -> int:
    """Return the last entry that is certainly confirmed, given what bookies report and the start of
    the last segment.
    """
    return max([*reported, first - 1])


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


def denies(error: str) -> bool:
    """Return whether this error proves that a bookie does not have the entry."""
    return error in ("BKNoSuchEntryException", "BKNoSuchLedgerExistsException")


DENIES = {
    "all": lambda error: error != "Entry",
    "none": lambda error: False,
    "silence": lambda error: "NoSuch" in error or "Timeout" in error,
    "unreadable": lambda error: "NoSuch" in error or "Read" in error,
    "wrong digest": lambda error: "NoSuch" in error or "Digest" in error,
    "unreachable": lambda error: "NoSuch" in error or "Not" in error,
    "entry alone": lambda error: error == "BKNoSuchEntryException",
    "ledger alone": lambda error: error == "BKNoSuchLedgerExistsException",
    "all but silence": lambda error: error != "Entry" and "Timeout" not in error,
    "the short names": lambda error: len(error) <= len("BKNoSuchEntryException"),
}

_CONFIRM = (
    "        while self.pending and len(self.pending[0].acked) >= self.metadata.ack_quorum:\n"
)
_WITH_ADVANCE = """\
        acks = [len(each.acked) for each in self.pending]
        last = rule(self.last_add_confirmed, acks, self.metadata.ack_quorum)
        while self.pending and self.pending[0].entry.entry_id <= last:
"""
_LEARN = """\
        lac = await newest_lac(self.cluster, self.metadata)
        self.last_add_confirmed = max(self.last_add_confirmed, lac)
"""
_WITH_READABLE = """\
        await newest_lac(self.cluster, self.metadata)  # Raises if too few bookies respond.
        newest = []
        for bookie in self.metadata.segments[-1].ensemble:
            try:
                entry = await self.cluster.read_last_entry(bookie)
                newest.append((entry.entry_id, entry.last_add_confirmed))
            except BKException:
                pass
        self.last_add_confirmed = rule(self.last_add_confirmed, newest)
"""
_FIRST = "        first = self.last_add_confirmed + 1\n        earlier"
_WITH_FIRST = """\
        failed_entry = min(each.entry.entry_id for each in self.pending if each.failed)
        first = rule(self.last_add_confirmed, failed_entry, self.last_add_pushed)
        earlier"""
_RESEND = """\
            for place in self.places(pending.entry.entry_id):
                if self.ensemble[place] != before[place]:
                    self.send_again(pending, place)
"""
_WITH_RESEND = """\
            new = frozenset(i for i, each in enumerate(before) if self.ensemble[i] != each)
            for place in range(len(before)) if new else ():
                if rule(place, new, self.places(pending.entry.entry_id), list(pending.acked)):
                    self.send_again(pending, place)
"""
_REPLACE = "        ensemble = tuple(others.get(each, each) for each in self.ensemble)\n"
_WITH_REPLACEMENT = """\
        indexes = {i: each for i, each in enumerate(self.ensemble) if each in failed}
        writable = await self.cluster.writable_bookies()
        unwanted = [each for each in self.given_up if each not in self.ensemble]
        ensemble = rule(self.ensemble, indexes, [each for each in writable if each not in unwanted])
        if ensemble == self.ensemble:
            return
"""
_START = """\
    lac = await newest_lac(cluster, metadata, fence=True)
    lac = max(lac, metadata.segments[-1].first_entry_id - 1)
"""
_WITH_START = """\
    await newest_lac(cluster, metadata, fence=True)  # Raises if too few bookies respond.
    reported = []
    for bookie in metadata.segments[-1].ensemble:
        try:
            reported.append((await cluster.read_last_entry(bookie, fence=True)).last_add_confirmed)
        except BKException:
            pass
    lac = rule(reported, metadata.segments[-1].first_entry_id)
"""
_DENIED = "        denied += isinstance(answer, PROVES_ABSENCE)\n"
_WITH_DENIES = "        denied += rule(type(answer).__name__)\n"

RULES: dict[str, tuple[int, tuple[str, str], Answer, dict[str, Answer]]] = {
    "advance": (1, (_CONFIRM, _WITH_ADVANCE), advance, ADVANCE),
    "readable": (2, (_LEARN, _WITH_READABLE), readable, READABLE),
    "first entry": (4, (_FIRST, _WITH_FIRST), lambda lac, failed, lap: lac + 1, FIRST_ENTRY),
    "resend": (4, (_RESEND, _WITH_RESEND), must_send, RESEND),
    "replacement": (4, (_REPLACE, _WITH_REPLACEMENT), new_ensemble, REPLACEMENT),
    "start": (6, (_START, _WITH_START), start, START),
    "denies": (6, (_DENIED, _WITH_DENIES), denies, DENIES),
}
"""For each rule: the step, the lines of the solution with it and those that call `rule`, the
correct version, and the wrong ones.
"""
