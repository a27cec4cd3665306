"""An event: something that happened on a node, as a flat record with typed columns.

`kinds` declares which columns each kind of event sets. Columns that do not apply contain their
default value: -1, "", () or False. The text in `explanation` is only displayed and never parsed.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias, TypedDict, Unpack, get_type_hints

Names: TypeAlias = tuple[str, ...]
"""Node names."""

Segments: TypeAlias = tuple[tuple[int, Names], ...]
"""A ledger's segments, each as its first entry id and its ensemble."""


class Event(NamedTuple):
    """`seq` numbers the events of a log from 0 in time order; `cause` is the `seq` of the event
    that caused this one, or -1. Both are -1 until `TraceLog` sets them. `time_us` is in
    microseconds on a clock that all nodes of the run share.

    peer: the other node.
    file, offset: a location on the node's disk.
    size: a count, or a number of bytes.
    checksum: the payload's checksum in hex.
    error: the name of an exception class.
    detail: one of the values that the kind allows.
    fault: a description of the fault of the node's machine.
    message: the number of a message on its link.

    All other columns have the names that BookKeeper and Pulsar use.
    """

    seq: int
    time_us: int
    node: str
    kind: str
    cause: int = -1
    ledger: int = -1
    entry: int = -1
    peer: str = ""
    file: str = ""
    offset: int = -1
    size: int = -1
    checksum: str = ""
    error: str = ""
    detail: str = ""
    explanation: str = ""
    ensemble: Names = ()
    bookies: Names = ()
    segments: Segments = ()
    ensemble_size: int = -1
    write_quorum: int = -1
    ack_quorum: int = -1
    deferred_sync: bool = False
    topic: str = ""
    subscription: str = ""
    producer: str = ""
    sequence_id: int = -1
    bundle: str = ""
    step: str = ""
    message: str = ""
    fault: str = ""
    seconds: float = -1.0


class Fields(TypedDict, total=False):
    """The columns that `Recorder.record` accepts as keyword arguments.

    These are the columns of `Event` from `peer` on. Type checkers need them as a separate list.
    """

    peer: str
    file: str
    offset: int
    size: int
    checksum: str
    error: str
    detail: str
    explanation: str
    ensemble: Names
    bookies: Names
    segments: Segments
    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    deferred_sync: bool
    topic: str
    subscription: str
    producer: str
    sequence_id: int
    bundle: str
    step: str
    message: str
    fault: str
    seconds: float


COLUMN_TYPES: dict[str, Any] = get_type_hints(Event)
"""The type of each column: `int`, `str`, `bool`, `float`, `Names` or `Segments`."""

DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("seq", "time_us"), -1),
    **dict.fromkeys(("node", "kind"), ""),
    **Event._field_defaults,
}


def unnumbered_event(
    time_us: int, node: str, kind: str, ledger: int = -1, entry: int = -1, **fields: Unpack[Fields]
) -> Event:
    """Return an event without a number or a cause."""
    return Event(-1, time_us, node, kind, -1, ledger, entry, **fields)


def lineage(by_seq: Mapping[int, Event], seq: int) -> list[Event]:
    """Return the event numbered `seq` and its chain of causes, earliest first.

    The chain ends early if an event's cause is missing from `by_seq`.
    """
    path = list[Event]()
    while seq in by_seq:
        path.append(by_seq[seq])
        seq = path[-1].cause
    return path[::-1]
