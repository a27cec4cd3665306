"""Step 4: a bookie fails, and another takes its place."""

from labkit.course.workshop.client import runs
from labkit.course.workshop.client.trials import (
    count_of,
    ends_well,
    every_order_of,
    holds,
    in_storms,
    red,
    time_between,
)
from labkit.course.workshop.step import Figure, Step
from labkit.worlds.sim.workload.steps import Read

_WRITER = ("w",)
_BOTH = ("w", "q")
_FOLLOW = Read(client="q", polls=5, poll_ms=8.0)

CHANGE = Step(
    number=4,
    name="another bookie takes the place",
    parts=("Writer",),
    invariants=(
        "A new segment begins at LastAddConfirmed + 1: every entry that is not confirmed belongs"
        " to the new ensemble, also one that some bookies have already.",
        "The metadata name the new ensemble before anything is confirmed that needs it: nothing is"
        " confirmed while a change runs.",
        "A bookie that works keeps its place. The new bookie gets every unconfirmed entry of its"
        " write sets, as it was packed; what its predecessor acknowledged counts no more.",
        "Where no other bookie takes writes, the writer goes on as long as Qa acknowledgements can"
        " come, and then ends.",
    ),
    write=(
        "In 40 to 60 lines: what `Writer` does when an add fails. Find a bookie outside the"
        " ensemble that has not failed you before (`cluster.writable_bookies`), store the metadata"
        " with a new `Segment` (`cluster.write_metadata`; its error means that another client has"
        " changed them: end), then send what is pending to the new bookies. A segment that begins"
        " where the last one does replaces it. More bookies may fail while a change runs."
    ),
    red=red(
        "E=2, Qw=2, Qa=2 on b0 and b1 of four bookies; both die with three adds under way; all"
        " three are confirmed.",
        runs.two_fail_together(),
        _WRITER,
    ),
    trials=(
        ends_well(
            (runs.one_fails_in_the_middle(), runs.one_fails_late(), runs.ONE_IS_DOWN),
            _WRITER,
            "Bookies that take writes are left, or Qa others have what they need: then every add is"
            " confirmed.",
        ),
        holds((runs.confirmed_late(),), _WRITER),
    ),
    worlds=(
        every_order_of(runs.ONE_MAY_CRASH, _WRITER, crashes=1),
        in_storms(lambda seeds: runs.storms(seeds, _FOLLOW, bookies=6, faults=4), _BOTH),
    ),
    figures=(
        Figure(
            "adds sent for 8 entries when a bookie dies",
            1.0,
            count_of(runs.one_fails_in_the_middle(), _WRITER, "add.sent"),
        ),
        Figure(
            "simulated ms until all 8 are confirmed",
            1.1,
            time_between(runs.one_fails_in_the_middle(), _WRITER, "add.pushed", "lac.advanced"),
        ),
    ),
    challenges=(
        "A change for each short hiccup is many segments. Wait with it until an entry really needs"
        " it (`delayEnsembleChange`), and say what you risk.",
        "Pass over bookies that fail often, for half an hour (quarantine).",
    ),
)
