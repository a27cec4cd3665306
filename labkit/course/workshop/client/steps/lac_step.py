"""Step 2: LastAddConfirmed goes along with each entry, and readers learn it."""

from labkit.course.workshop.client import runs
from labkit.course.workshop.client.trials import (
    count_of,
    ends_well,
    every_order_of,
    in_storms,
    must_fail,
    red,
    time_between,
)
from labkit.course.workshop.step import Figure, Step
from labkit.worlds.sim.workload.steps import Read

_BOTH = ("w", "q")
_READER = ("q",)
_FOLLOW = Read(client="q", polls=5, poll_ms=8.0)

LAST_ADD_CONFIRMED = Step(
    number=2,
    name="how far a ledger can be read",
    parts=("Writer", "Reader"),
    invariants=(
        "An entry carries the LastAddConfirmed of the moment at which it gets its id: never more.",
        "What a reader takes for LastAddConfirmed was confirmed: every later reader gets it, too.",
        "A reader that asks learns at least what any entry announced that was confirmed before it"
        " asked, whichever bookies are slow, behind or down.",
        "Where too few bookies answer to know that, it raises `BKReadException`.",
    ),
    write=(
        "In 25 to 40 lines: fill in `last_add_confirmed` in `Writer.add`, and write"
        " `Reader.read_last_add_confirmed`. It asks all bookies of the last ensemble for their last"
        " entry and takes the highest LastAddConfirmed that an answer carries. It returns as soon"
        " as the bookies that it has not heard of are too few to acknowledge an entry alone: in"
        " each write set fewer than Qa places are unknown. `PROVES_ABSENCE` is an answer, too: that"
        " bookie has nothing. Any other error is none. A closed ledger's last entry is in its"
        " metadata, which change: read them when you are asked."
    ),
    red=red(
        "8 entries are confirmed, one after the other; then `read_last_add_confirmed()` returns 7"
        " or, as no later entry announced the last one, less.",
        runs.READ_LATE,
        _BOTH,
        reads=False,
    ),
    trials=(
        ends_well(
            (
                runs.READ_BEFORE_ALL,
                runs.FOLLOWED,
                runs.FOLLOWED_STRIPED,
                runs.one_knows_nothing(),
                runs.one_knows_the_last(),
            ),
            _BOTH,
            "A reader must learn LastAddConfirmed while enough bookies answer.",
            reads=False,
        ),
        must_fail(
            runs.some_are_silent(),
            _BOTH,
            "BKReadException",
            "Two of three bookies are down, and these two alone are enough to acknowledge an entry"
            " (Qa = 2). What the third one knows is not how far the ledger is confirmed.",
            reads=False,
        ),
    ),
    worlds=(
        every_order_of(runs.READ_AT_ANY_MOMENT, _BOTH, reads=False),
        in_storms(lambda seeds: runs.storms(seeds, _FOLLOW), _BOTH, reads=False),
    ),
    figures=(
        Figure(
            "requests to learn LastAddConfirmed six times",
            1.0,
            count_of(runs.FOLLOWED, _READER, "read.sent", reads=False),
        ),
        Figure(
            "simulated ms to learn LastAddConfirmed while one of three bookies is slow",
            1.5,
            time_between(runs.ONE_ANSWERS_LATE, _READER, "read.sent", "lac.read", reads=False),
        ),
    ),
    challenges=(
        "The newest entry is announced by the next one only. Announce it without one, when the"
        " writer is idle (`explicitLacInterval`), and say what it costs.",
        "`tryReadLastAddConfirmed` takes the first answer that knows more. What can its caller rely"
        " on, and what not?",
    ),
)
