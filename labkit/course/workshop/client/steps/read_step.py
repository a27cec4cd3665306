"""Step 3: read an entry, falling back to other copies, and know what a response proves."""

from labkit.course.workshop.client import contract, runs
from labkit.course.workshop.client.generated.reading import responses_determine_the_result
from labkit.course.workshop.client.trials import (
    count_of,
    ends_well,
    every_order_of,
    first_test,
    in_storms,
)
from labkit.course.workshop.tracks import ContractLine, Cost, Step
from labkit.worlds.sim.workload.steps import Read

_BOTH = ("w", "q")
_READER = ("q",)
_FOLLOW = Read(client="q", polls=5, poll_ms=8.0)

READ = Step(
    number=3,
    name="read, and know what a response proves",
    parts=("Reader",),
    contract=(
        ContractLine(contract.IN_WRITE_SET),
        ContractLine(contract.ONE_BY_ONE),
        ContractLine(contract.ANY_COPY),
        ContractLine(contract.PROOF),
        ContractLine(contract.ALL_DENY),
    ),
    write=(
        "`Reader.read_entry` (10 to 20 lines). The segment of an entry is the last one that starts"
        " at or before it (`metadata.ensemble_at`)."
    ),
    hints=(
        "`write_set` gives indexes. `self.metadata.ensemble_at(entry_id)` gives the ensemble to"
        " which they refer.",
        "Return from the loop over the write set at the first entry. Collect the errors on the"
        " way.",
        "If no bookie returned the entry, raise the first error that is not in `PROVES_ABSENCE`;"
        " only if there is none, raise one that is.",
    ),
    first_test=first_test(
        "8 entries are written; q reads all entries up to LastAddConfirmed.",
        runs.READ_LATE,
        _BOTH,
    ),
    generated=(responses_determine_the_result,),
    trials=(
        ends_well(
            (runs.FOLLOWED_STRIPED, runs.one_knows_nothing(), runs.a_copy_is_damaged()),
            _BOTH,
            contract.ANY_COPY,
        ),
    ),
    slow_trials=(
        every_order_of(runs.READ_AT_ANY_MOMENT, _BOTH),
        in_storms(lambda seeds: runs.storms(seeds, _FOLLOW), _BOTH),
        in_storms(lambda seeds: runs.storms(seeds // 2, _FOLLOW), _READER),
    ),
    costs=(
        Cost(
            "requests to learn LastAddConfirmed and read 8 entries",
            1.0,
            count_of(runs.READ_LATE, _READER, "read.sent"),
        ),
    ),
    challenges=(
        "A bookie that hangs costs its reader 5 s. After 2 s, also ask the next one, and take the"
        " first entry that arrives (speculative read).",
        "Read 1,000 entries so that each bookie sends as many bytes as the others.",
    ),
)
