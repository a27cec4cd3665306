"""Computes the expected results of `labkit.views.spark.traces` independently, in one pass."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from labkit.system.trace.events import Event

Row = tuple[Any, ...]
MARKED, DONE, DELETED = "ledger.underreplicated", "replication.done", "ledger.deleted"


def underreplicated_ledgers(events: Sequence[Event]) -> list[Row]:
    marked: set[int] = set()
    told = []
    for event in events:
        before = len(marked)
        if event.kind == MARKED:
            marked.add(event.ledger)
        elif event.kind in (DONE, DELETED):
            marked.discard(event.ledger)
        if len(marked) != before:
            told.append((event.seq, event.time_us, event.ledger, event.kind, len(marked)))
    return told


def repairs(events: Sequence[Event]) -> set[Row]:
    """Return one row per repair.

    Its columns are the ledger, the number of the mark, the times of the mark, start and end, the
    worker, and the numbers of copies and deferrals.
    """
    now: dict[int, dict[str, Any]] = {}
    is_marked: defaultdict[int, bool] = defaultdict(bool)
    told: list[dict[str, Any]] = []
    for event in events:
        if event.kind == MARKED and not is_marked[event.ledger]:
            number = now[event.ledger]["episode"] + 1 if event.ledger in now else 1
            now[event.ledger] = {
                **{"ledger": event.ledger, "episode": number, "marked_us": event.time_us},
                **dict.fromkeys(("started_us", "done_us", "worker")),
                **{"copies": 0, "deferrals": 0},
            }
            told.append(now[event.ledger])
            is_marked[event.ledger] = True
        elif event.ledger in now:
            _apply(now[event.ledger], event)
            is_marked[event.ledger] &= event.kind not in (DONE, DELETED)
    return {tuple(each.values()) for each in told}


def _apply(repair: dict[str, Any], event: Event) -> None:
    if event.kind == "replication.started":
        repair["started_us"] = repair["started_us"] or event.time_us
        repair["worker"] = event.node
    elif event.kind in (DONE, DELETED):
        repair["done_us"] = repair["done_us"] or event.time_us
    repair["copies"] += event.kind == "entry.copied"
    repair["deferrals"] += event.kind == "replication.deferred"


def copies_made(events: Sequence[Event], bucket_ms: int) -> set[Row]:
    made = Counter(
        (event.time_us // 1000 // bucket_ms * bucket_ms, event.node)
        for event in events
        if event.kind == "entry.copied"
    )
    return {
        (start, worker, count, sum(n for (at, _), n in made.items() if at <= start))
        for (start, worker), count in made.items()
    }


def life_cycles(events: Sequence[Event]) -> dict[int, dict[str, Any]]:
    names = {
        "ledger.created": "created_us",
        "lac.advanced": "first_confirmed_us",
        "ledger.fenced": "fenced_us",
        "recovery.started": "recovery_us",
        "ledger.closed": "closed_us",
        MARKED: "marked_us",
        DELETED: "deleted_us",
    }
    lives: dict[int, dict[str, Any]] = {}
    for event in events:
        if event.ledger < 0:
            continue
        life = lives.setdefault(
            event.ledger,
            {**dict.fromkeys((*names.values(), "repaired_us", "last_entry")), "changes": 0},
        )
        if event.kind in names:
            life[names[event.kind]] = life[names[event.kind]] or event.time_us
        if event.kind == DONE:
            life["repaired_us"] = event.time_us
        if event.kind == "ledger.closed":
            life["last_entry"] = event.entry
        life["changes"] += event.kind == "ensemble.changing"
    for life in lives.values():
        order = (("deleted_us", "deleted"), ("closed_us", "closed"), ("recovery_us", "in recovery"))
        states = (state for name, state in order if life[name] is not None)
        life["state"] = next(states, "open")
    return lives
