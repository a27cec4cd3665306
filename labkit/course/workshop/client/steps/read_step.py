"""Step 3: read an entry, from another copy where one fails, and know what an answer proves."""

from labkit.course.workshop.client import runs
from labkit.course.workshop.client.reading import answers_decide
from labkit.course.workshop.client.trials import count_of, ends_well, every_order_of, in_storms, red
from labkit.course.workshop.step import Figure, Step
from labkit.worlds.sim.workload.steps import Read

_BOTH = ("w", "q")
_READER = ("q",)
_FOLLOW = Read(client="q", polls=5, poll_ms=8.0)

READ = Step(
    number=3,
    name="read, and know what an answer proves",
    parts=("Reader",),
    invariants=(
        "An entry is looked for on the bookies of its write set, in the ensemble of its segment,"
        " one after the other until one gives it: one request, unless a bookie fails.",
        "A copy that cannot be read does not matter while another can.",
        "`PROVES_ABSENCE` is raised only if all bookies of the write set say so. If one of them is"
        " silent, down or cannot read its copy, nothing is proven, and that error is raised.",
    ),
    write=(
        "In 10 to 20 lines: `Reader.read_entry`. The segment of an entry is the last one that"
        " begins at or before it (`metadata.ensemble_at`)."
    ),
    red=red(
        "8 entries are written; q reads all that it may, and gets each from a bookie.",
        runs.READ_LATE,
        _BOTH,
    ),
    trials=(
        ends_well(
            (runs.FOLLOWED_STRIPED, runs.one_knows_nothing(), runs.a_copy_is_damaged()),
            _BOTH,
            "Another bookie of the write set has the entry: where one does not give it, for"
            " whatever reason, the next one is asked.",
        ),
        answers_decide,
    ),
    worlds=(
        every_order_of(runs.READ_AT_ANY_MOMENT, _BOTH),
        in_storms(lambda seeds: runs.storms(seeds, _FOLLOW), _BOTH),
        in_storms(lambda seeds: runs.storms(seeds // 2, _FOLLOW), _READER),
    ),
    figures=(
        Figure(
            "requests to learn LastAddConfirmed and read 8 entries",
            1.0,
            count_of(runs.READ_LATE, _READER, "read.sent"),
        ),
    ),
    challenges=(
        "A bookie that hangs costs its reader 5 s. Ask the next one after 2 s, too, and take the"
        " first entry that comes (speculative read).",
        "Read 1,000 entries so that each bookie sends as many bytes as the others.",
    ),
)
