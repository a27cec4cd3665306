"""Step 4: replace a failed bookie (ensemble change)."""

from labkit.course.workshop.client import contract, runs
from labkit.course.workshop.client.generated.writing import failed_bookies_are_replaced
from labkit.course.workshop.client.trials import (
    count_of,
    ends_well,
    every_order_of,
    first_test,
    holds,
    in_storms,
    must_fail,
    time_between,
)
from labkit.course.workshop.tracks import ContractLine, Cost, Milestone, Step
from labkit.worlds.sim.workload.steps import Read

_WRITER = ("w",)
_BOTH = ("w", "q")
_FOLLOW = Read(client="q", polls=5, poll_ms=8.0)

CHANGE = Step(
    number=4,
    name="replace a failed bookie",
    parts=("Writer",),
    contract=(
        ContractLine(contract.BEGINS, broken_by=("OnlyValidFragments",)),
        ContractLine(contract.REPLACES),
        ContractLine(contract.WAITS, broken_by=("AcknowledgedIsDurable",)),
        ContractLine(contract.KEEPS),
        ContractLine(contract.OUTSIDE, broken_by=("TypeOK",)),
        ContractLine(contract.RESENT, broken_by=("WriteSetIsRight",)),
        ContractLine(
            contract.COUNTS, broken_by=("AckQuorumIsReached", "AllCommittedEntriesReachAckQuorum")
        ),
        ContractLine(contract.CONTINUES),
        ContractLine(contract.FAILS),
        ContractLine(contract.OTHERS_CHANGE),
    ),
    write=(
        "what `Writer` does when an add fails (40 to 60 lines). Find a bookie outside the ensemble"
        " that has not failed you before (`cluster.writable_bookies`), store the metadata with a"
        " new `Segment` (`replace(self.metadata, segments=...)` and `cluster.write_metadata`; if"
        " that raises, another client has changed the metadata, so end the writer), and then send"
        " the pending entries to the new bookies. More bookies may fail while a change runs."
    ),
    hints=(
        "Keep a list of bookies that have failed since the last change. One task at a time works"
        " through this list; while it runs, nothing is confirmed.",
        "The task asks for writable bookies, puts one in each failed bookie's index, and stores the"
        " metadata. Only after that, for each pending add and each changed index, it drops the old"
        " acknowledgement and sends the entry again.",
        "After the change, confirm what can be confirmed. If a pending entry's adds have failed on"
        " more than Qw - Qa bookies that were not replaced, fail all pending adds with"
        " `BKNotEnoughBookiesException`.",
    ),
    first_test=first_test(
        "E=3, Qw=2, Qa=2 on three of four bookies; b1 dies with three adds in flight; all entries"
        " are confirmed.",
        runs.one_fails_in_the_middle(),
        _WRITER,
        line=contract.RESENT,
    ),
    milestones=(
        Milestone(
            "an add fails and no spare bookie exists: the writer continues",
            ends_well((runs.ONE_IS_DOWN,), _WRITER, contract.CONTINUES),
        ),
        Milestone(
            "two bookies die together",
            ends_well((runs.two_fail_together(),), _WRITER, contract.RESENT),
        ),
        Milestone(
            "the bookie that acknowledged first dies",
            ends_well((runs.one_fails_late(),), _WRITER, contract.RESENT),
        ),
        Milestone(
            "acknowledgements arrive while the metadata is being stored",
            holds((runs.confirmed_late(),), _WRITER),
        ),
        Milestone(
            "no bookie is left: pending adds fail",
            must_fail(runs.NONE_IS_LEFT, _WRITER, "BKNotEnoughBookies", contract.FAILS),
        ),
    ),
    generated=(failed_bookies_are_replaced,),
    trials=(),
    slow_trials=(
        every_order_of(runs.ONE_MAY_CRASH, _WRITER, crashes=1),
        in_storms(lambda seeds: runs.storms(seeds, _FOLLOW, bookies=6, faults=4), _BOTH),
    ),
    costs=(
        Cost(
            "adds sent for 8 entries when a bookie dies",
            1.0,
            count_of(runs.one_fails_in_the_middle(), _WRITER, "add.sent"),
        ),
        Cost(
            "simulated ms until all 8 are confirmed",
            3.0,
            time_between(runs.one_fails_in_the_middle(), _WRITER, "add.pushed", "lac.advanced"),
        ),
    ),
    challenges=(
        "If every short failure leads to a change, the ledger gets many segments. Delay the change"
        " until an entry needs it (`delayEnsembleChange`), and say what you risk.",
        "For half an hour, do not choose bookies that failed often (quarantine).",
    ),
)
