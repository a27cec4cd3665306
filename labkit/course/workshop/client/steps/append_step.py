"""Step 1: append to a quorum."""

from labkit.course.workshop.client import runs
from labkit.course.workshop.client.trials import (
    count_of,
    ends_well,
    every_order_of,
    in_storms,
    red,
    time_between,
)
from labkit.course.workshop.step import Figure, Step

_NODES = ("w",)

APPEND = Step(
    number=1,
    name="append to a quorum",
    parts=("write_set", "Writer"),
    invariants=(
        "An entry is sent to the Qw bookies of its write set and to no other: the places"
        " (entry id + i) mod E, i = 0 .. Qw-1, of the ensemble.",
        "An entry is confirmed only when Qa of them have acknowledged it.",
        "Entries are confirmed in the order of their ids, without a gap.",
        "A bookie that is slow or down holds up no entry that Qa others have.",
    ),
    write=(
        "In 25 to 40 lines: `write_set`, and `Writer.add`, which sends an entry to its write set"
        " and returns its id once it is confirmed. Callers do not wait for one add before the next:"
        " give the entry its id before your first `await`. Send with `cluster.spawn`, so that no"
        " bookie waits for another. A bookie's error is not an acknowledgement, and not the end."
        " LastAddConfirmed in the entry may be -1 for now."
    ),
    red=red(
        "One ledger on b0, b1 and b2 (E=3, Qw=3, Qa=2): `await writer.add(b'0/0 ...')` returns 0.",
        runs.ONE_ADD,
        _NODES,
    ),
    trials=(
        ends_well(
            (runs.STRIPED, runs.ONE_IS_LATE, runs.ONE_OF_TWO_IS_LATE, runs.ONE_IS_DOWN),
            _NODES,
            "An entry is confirmed as soon as Qa bookies have it and all entries before it are"
            " confirmed. Here a caller waits for more than that, or an `add` failed because one"
            " bookie did.",
        ),
    ),
    worlds=(
        every_order_of(runs.TWO_ADDS, _NODES),
        in_storms(runs.storms, _NODES),
    ),
    figures=(
        Figure(
            "requests per add",
            1.0,
            count_of(runs.STRIPED, _NODES, "add.sent", per=12),
        ),
        Figure(
            "simulated ms for 12 adds, 10 at a time",
            1.1,
            time_between(runs.STRIPED, _NODES, "add.pushed", "lac.advanced"),
        ),
    ),
    challenges=(
        "Limit what is under way: `add` waits while 5,000 entries are unconfirmed, and the order of"
        " the ids still is the order of the calls.",
        "An entry without Qa acknowledgements after 10 s ends the writer"
        " (`addEntryQuorumTimeoutSec`). Which entries may its caller count on?",
    ),
)
