"""Values that describe the recovery progress at one moment.

A step is an event that changes the picture. A copy that becomes durable is a separate step only
while a worker is repairing the ledger; other copies are added to the next step.
"""

from dataclasses import dataclass
from typing import NamedTuple

from labkit.system.trace.events import Event


class RepairStep(NamedTuple):
    """An event, and the events by which copies have become durable since the previous step."""

    event: Event
    stored: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class EnsembleBookie:
    """A bookie in an ensemble. `expected`: the number of entries that it should have; `durable`:
    how many of these are durable on it.
    """

    name: str
    state: str
    durable: int
    expected: int


@dataclass(frozen=True, slots=True)
class FragmentCopies:
    """The entries of a fragment from `first` to `last` (`first` - 1 if there are none), and their
    copies.

    min_copies: the minimum over all entries of the number of copies on responding bookies.
    targets: the bookies to which a repair copies, with the number of entries on each.
    """

    first: int
    last: int
    bookies: tuple[EnsembleBookie, ...]
    min_copies: int
    targets: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class LedgerRepair:
    """A ledger and its repair.

    stage: whole, marked, locked (`holder` is repairing it), or waiting (`holder` postponed the
        repair for the reason `why`).
    missed: the bookies listed in the mark.
    """

    write_quorum: int
    closed: bool
    stage: str
    missed: tuple[str, ...]
    holder: str
    why: str
    fragments: tuple[FragmentCopies, ...]


@dataclass(frozen=True, slots=True)
class RecoveryState:
    """The state that the picture shows after `step_count` steps.

    auditor: the elected auditor, or "". If the auditor dies, it remains in this role until its
        session expires.
    bookies: whether each bookie is up, paused, down (but still registered), gone (not registered)
        or lost.
    """

    step_count: int
    auditor: str
    is_auditor_dead: bool
    bookies: dict[str, str]
    ledgers: dict[int, LedgerRepair]
