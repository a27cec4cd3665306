"""The levels of the game, from two moves to more than a dozen."""

from dataclasses import dataclass, replace

from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Recover, Write

RULES = """\
Bookies (b0, b1, ...) are servers that store entries. The writer w sends each entry to several
bookies. A bookie stores the entry on its disk and responds. When enough bookies have responded,
the writer confirms the entry to its user: from now on, it must never be lost.

If the writer may be dead, a reader r recovers the ledger. It fences the bookies, so that they refuse
the writer from then on, and asks them for their entries. It closes the ledger after the last entry
that may have been confirmed. Nobody can read what comes after that.

You decide which message arrives next. A message that you do not deliver is just slow, and the nodes
cannot tell whether it will ever arrive. Messages to and from the metadata server arrive by
themselves. When nothing is in flight any more, the run ends, and every entry is read back."""


@dataclass(frozen=True, slots=True)
class Level:
    """A level.

    scenario    with the correct protocol
    variant     the bug
    promise     the name of the check to break
    crashes     the number of power cuts that the player has
    losses      the number of messages that the player can lose
    solution    the shortest way found, as moves
    states      how many states of the correct protocol `every_order` tried
    """

    title: str
    goal: str
    scenario: Scenario
    variant: str
    promise: str
    crashes: int
    losses: int
    states: int
    solution: tuple[str, ...]

    @property
    def faulty(self) -> Scenario:
        return replace(self.scenario, variant=self.variant)

    @property
    def par(self) -> int:
        return len(self.solution)


_LOST = "AcknowledgedIsDurable"
_WRITE = Write(entries=1, ensemble=2, write_quorum=2, window=1, close=False)
_RECOVER = Recover(when=On("add.pushed"))
_STRIPED = replace(_WRITE, entries=2, write_quorum=1, ack_quorum=1, window=2)
_ONE_BOOKIE = replace(_WRITE, ensemble=1, write_quorum=1, ack_quorum=1)
_THREE = replace(_WRITE, ensemble=3, write_quorum=3)
_TWO = Scenario(Cluster(2), (_WRITE, _RECOVER))

LEVELS = (
    Level(
        "One is enough",
        "Make the writer confirm entry 0 although only one bookie has it. Two must have it.",
        Scenario(Cluster(3), (_THREE,)),
        "ack after one bookie",
        "AckQuorumIsReached",
        0,
        0,
        0,
        ("deliver w>b1 2", "deliver b1>w 2"),
    ),
    Level(
        "Out of order",
        "Make the writer confirm entry 1 although entry 0 is not confirmed yet.",
        Scenario(Cluster(2), (_STRIPED,)),
        "LAC out of order",
        "LacAdvancesInOrder",
        0,
        0,
        18,
        ("deliver w>b1 2", "deliver b1>w 2"),
    ),
    Level(
        "Only in memory",
        "Make the bookie lose entry 0 after it has told the writer that the entry is stored.",
        Scenario(Cluster(1), (_ONE_BOOKIE,), ends_in_power_cut=False),
        "ack before sync",
        "EveryCopyIsDurable",
        1,
        0,
        62,
        ("deliver w>b0 2", "crash b0 1", "deliver b0>w 2", "deliver b0>w 3"),
    ),
    Level(
        "The reader who came too early",
        "Make the reader close the ledger without entry 0, although the writer has confirmed it.",
        _TWO,
        "ack after one bookie",
        _LOST,
        0,
        0,
        533,
        (
            "deliver r>r 0",
            "deliver w>b0 2",
            "deliver b0>w 2",
            "deliver r>b1 2",
            "deliver b1>r 2",
            "deliver r>b1 3",
            "deliver b1>r 3",
        ),
    ),
)
