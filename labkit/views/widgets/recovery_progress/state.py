"""The recovery progress at one moment, as values.

A step is an event that changes the picture.  A copy that becomes durable is a step only while a
worker repairs its ledger; other copies are shown with the next step.
"""

from dataclasses import dataclass
from typing import NamedTuple

from labkit.system.trace.events import Event


class DurableCopy(NamedTuple):
    """A copy that became durable."""

    bookie: str
    ledger: int
    entry: int


class RepairStep(NamedTuple):
    """An event, and the copies that became durable since the step before it."""

    event: Event
    stored: tuple[DurableCopy, ...]


@dataclass(frozen=True, slots=True)
class EnsemblePlace:
    """A place of an ensemble: its bookie should have `due` entries, and has `held` of them."""

    bookie: str
    state: str
    held: int
    due: int


@dataclass(frozen=True, slots=True)
class FragmentCopies:
    """Entries `first` to `last` (`first` - 1: none), and their copies.

    least: the smallest number of copies of any entry on bookies that answer.
    present: copies on bookies that the metadata names and that answer; copied: copies on bookies
    that a repair copies to; due: copies that should exist. targets: the bookies that a repair
    copies to, and the number of entries on each.
    """

    first: int
    last: int
    places: tuple[EnsemblePlace, ...]
    least: int
    present: int
    copied: int
    due: int
    targets: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class LedgerRepair:
    """A ledger.  `stage`: whole, marked, locked (`holder` repairs it) or waiting (`holder`
    postponed the repair, for the reason `why`); `missed`: the bookies that its mark names.
    """

    write_quorum: int
    closed: bool
    stage: str
    missed: str
    holder: str
    why: str
    fragments: tuple[FragmentCopies, ...]


@dataclass(frozen=True, slots=True)
class RecoveryState:
    """The picture after `step_count` steps.

    auditor: the elected auditor, "" for none; a dead one stays until its session ends.
    bookies: up, paused, down (but still registered), gone (not registered) or lost.
    """

    step_count: int
    time_us: int
    sentence: str
    auditor: str
    is_auditor_dead: bool
    bookies: dict[str, str]
    ledgers: dict[int, LedgerRepair]
