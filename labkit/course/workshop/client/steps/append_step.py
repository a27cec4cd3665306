"""Step 1: append to a quorum."""

from labkit.course.workshop.client import contract, runs
from labkit.course.workshop.client.generated.writing import adds_are_confirmed_in_order
from labkit.course.workshop.client.trials import (
    count_of,
    ends_well,
    every_order_of,
    first_test,
    in_storms,
    time_between,
)
from labkit.course.workshop.tracks import ContractLine, Cost, Step

_NODES = ("w",)

APPEND = Step(
    number=1,
    name="append to a quorum",
    parts=("write_set", "Writer"),
    contract=(
        ContractLine(contract.WRITE_SET, broken_by=("WriteSetIsRight",)),
        ContractLine(contract.AFTER_QA, broken_by=("AckQuorumIsReached",)),
        ContractLine(contract.IN_ORDER, broken_by=("LacAdvancesInOrder",)),
        ContractLine(
            contract.RETURNS_ID,
            broken_by=("AcknowledgedIsDurable", "AddsReturnWhenConfirmed", "ReadersAgree"),
        ),
        ContractLine(contract.LENGTH, broken_by=("ClosedLengthIsRight",)),
        ContractLine(contract.NOT_HELD_UP),
    ),
    write=(
        "`write_set`, and `Writer.add`, which sends an entry to its write set and returns its id"
        " once it is confirmed (25 to 40 lines). Callers do not wait for one add before they start"
        " the next, so give the entry its id before your first `await`. Send with `cluster.spawn`,"
        " so that no bookie waits for another. A bookie's error is not an acknowledgement, but the"
        " writer continues. LastAddConfirmed in the entry may be -1 for now."
    ),
    hints=(
        "`add` appends a `PendingAdd` with a new future to `self.pending`, spawns one task per"
        " bookie of the write set, and awaits the future.",
        "Each task awaits `cluster.add_entry`, catches `BKException`, and notes the acknowledgement"
        " in the `PendingAdd`.",
        "After each acknowledgement, look at the first pending add only: while it has Qa"
        " acknowledgements, remove it, advance LastAddConfirmed and set its future's result.",
    ),
    first_test=first_test(
        "One ledger on b0, b1 and b2 (E=3, Qw=3, Qa=2): `await writer.add(b'0/0 ...')` returns 0.",
        runs.ONE_ADD,
        _NODES,
    ),
    generated=(adds_are_confirmed_in_order,),
    trials=(
        ends_well(
            (runs.STRIPED, runs.ONE_IS_LATE, runs.ONE_OF_TWO_IS_LATE, runs.ONE_IS_DOWN),
            _NODES,
            f"{contract.NOT_HELD_UP} Here, a caller waits for more than that, or an `add` failed"
            " because a single bookie failed.",
        ),
    ),
    slow_trials=(every_order_of(runs.TWO_ADDS, _NODES), in_storms(runs.storms, _NODES)),
    costs=(
        Cost("requests per add", 1.0, count_of(runs.STRIPED, _NODES, "add.sent", per=12)),
        Cost(
            "simulated ms for 12 adds, 10 at a time",
            1.1,
            time_between(runs.STRIPED, _NODES, "add.pushed", "lac.advanced"),
        ),
    ),
    challenges=(
        "Limit the number of unconfirmed entries: `add` waits while there are 5,000, and ids are"
        " still assigned in the order of the calls.",
        "End the writer if an entry does not have Qa acknowledgements after 10 s"
        " (`addEntryQuorumTimeoutSec`). Which entries can its caller count on?",
    ),
)
