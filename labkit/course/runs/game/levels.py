"""The rules and the levels of the game, which take between two and thirteen moves."""

from dataclasses import KW_ONLY, dataclass, replace

from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Recover, Write

RULES = "\n\n".join(
    (
        "Bookies (b0, b1, ...) are servers that store entries. The writer w sends each entry to one"
        " or more bookies: its write set. A bookie first has the entry only in its memory (the"
        " memtable). Then it writes the entry to its journal, a file, and syncs the file, so that"
        " the entry is on its disk, and acknowledges the entry. When enough bookies (the ack"
        " quorum) have acknowledged the entry, the writer confirms it to its user: from now on, it"
        " must never be lost. A sequence of entries is called a ledger. LAP is the last entry that"
        " the writer has sent, and LAC is the last confirmed entry.",
        "The metadata, which is stored on another server, says which bookies have an entry, and"
        " readers ask only these bookies. If a bookie fails, the writer replaces it with another"
        " one, and notes in the metadata from which entry on the new one is used.",
        "If the writer may be dead, a reader r recovers the ledger. It fences the bookies, so that"
        " they refuse the writer from then on, and asks them for their entries. It has heard from"
        " enough bookies when the others are too few to confirm an entry. It closes the ledger"
        " after the last entry that may have been confirmed. Nobody can read later entries.",
        "You decide which message arrives next. A message that you do not deliver is just slow, and"
        " the nodes cannot tell whether it will ever arrive. A connection delivers its messages in"
        " order, so some messages must wait for an earlier one. In some levels, you can also lose a"
        " message, or cut a bookie's power: the bookie loses what is not on its disk yet, its"
        " connections are closed, and it restarts at once. Messages on their way to it are dropped,"
        " but messages that it has already sent still arrive. Messages to and from the metadata"
        " server arrive by themselves.",
        "You win as soon as the goal is reached. When nothing is in flight any more, the run ends,"
        " and a final reader recovers the ledger and reads every entry back.",
    )
)


@dataclass(frozen=True, slots=True)
class Level:
    """A level of the game.

    scenario    with the correct protocol
    variant     the bug
    promise     the name of the check to break
    crashes     the number of power cuts that the player has
    losses      the number of messages that the player can lose
    solution    a shortest play, as moves
    states      how many states of the correct protocol `every_order` tried
    tried       how many states `par` searched for a shorter play
    explanation what the bug is, and how the correct protocol avoids it; shown after a win
    """

    title: str
    goal: str
    scenario: Scenario
    variant: str
    promise: str
    _: KW_ONLY
    crashes: int = 0
    losses: int = 0
    states: int
    tried: int
    solution: tuple[str, ...]
    explanation: str

    @property
    def faulty(self) -> Scenario:
        return replace(self.scenario, variant=self.variant)

    @property
    def par(self) -> int:
        return len(self.solution)

    def allowed(self, kind: str) -> int:
        """Return how many power cuts (`crash`) or losses (`lose`) the level allows."""
        return {"crash": self.crashes, "lose": self.losses}.get(kind, 0)


def _moves(text: str) -> tuple[str, ...]:
    """Parse a list of moves from text in which the word `deliver` is omitted."""
    return tuple(
        move if move.startswith(("crash", "lose")) else f"deliver {move}"
        for move in text.split(", ")
    )


_LOST = "AcknowledgedIsDurable"
_WRITE = Write(entries=1, ensemble=2, write_quorum=2, window=1, close=False)
_RECOVER = Recover(when=On("add.pushed"))
_STRIPED = replace(_WRITE, entries=2, write_quorum=1, ack_quorum=1, window=2)
_TO_THREE = replace(_WRITE, ensemble=3, write_quorum=3)
_TWO = Scenario(Cluster(2), (_WRITE, _RECOVER))
_THREE = Scenario(Cluster(3), (_TO_THREE, _RECOVER))

LEVELS = (
    Level(
        "One is enough",
        "make the writer confirm entry 0 although only one bookie has it. Two must have it (the ack"
        " quorum).",
        Scenario(Cluster(3), (_TO_THREE,)),
        "ack after one bookie",
        "AckQuorumIsReached",
        states=23,
        tried=4,
        solution=_moves("w>b1 2, b1>w 2"),
        explanation="The bug: the writer confirms an entry after a single"
        " acknowledgement. If the only bookie that has the entry fails now, the entry is lost,"
        " although the writer's user was told that it is safe. The correct writer waits for two"
        " acknowledgements.",
    ),
    Level(
        "Out of order",
        "make the writer confirm entry 1 although entry 0 is not confirmed yet.",
        Scenario(Cluster(2), (_STRIPED,)),
        "LAC out of order",
        "LacAdvancesInOrder",
        states=18,
        tried=3,
        solution=_moves("w>b1 2, b1>w 2"),
        explanation="The bug: the writer confirms entries in the order in which they are"
        " acknowledged. The correct writer confirms an entry only after all earlier ones,"
        " because a ledger has no holes: if no bookie has entry 0, a recovered ledger ends"
        " before entry 0, and entry 1 is lost as well (you can do this in level 6).",
    ),
    Level(
        "Only in memory",
        "make the bookie lose entry 0, and still tell the writer that the entry is stored.",
        Scenario(
            Cluster(1),
            (replace(_WRITE, ensemble=1, write_quorum=1, ack_quorum=1),),
            ends_in_power_cut=False,
        ),
        "ack before sync",
        "EveryCopyIsDurable",
        crashes=1,
        states=62,
        tried=8,
        solution=_moves("w>b0 2, crash b0 1, b0>w 2"),
        explanation="The bug: the bookie acknowledges an entry before it is on the disk."
        " The correct bookie first syncs its journal, so a power cut loses no entry that it has"
        " acknowledged.",
    ),
    Level(
        "The wrong address",
        "make the writer confirm an entry that no reader can find. The only bookie that has it is"
        " not the one that the metadata names.",
        Scenario(Cluster(3), (_STRIPED,)),
        "ensemble change from the wrong entry",
        "AckQuorumIsReached",
        crashes=1,
        states=209,
        tried=47,
        solution=_moves("crash b0 0, b0>w 2, w>b2 2, b2>w 2"),
        explanation="The bug: the writer sent entry 0 to b2 instead of b0, but noted in"
        " the metadata that b2 replaces b0 only for later entries. So readers ask b0 for entry"
        " 0. The correct writer notes the first entry that is not confirmed yet.",
    ),
    Level(
        "Too early to tell",
        "make the reader close the ledger without entry 0, which the writer has confirmed. The"
        " writer is as hasty as in level 1.",
        _TWO,
        "ack after one bookie",
        _LOST,
        states=533,
        tried=199,
        solution=_moves("r>r 0, w>b0 2, b0>w 2, r>b1 2, b1>r 2, r>b1 3, b1>r 3"),
        explanation="The bug is that of level 1. The correct writer confirms an entry"
        " only when two bookies have it. There are only two, so a reader that finds one"
        " bookie without the entry concludes that the entry was not confirmed. Here, it was.",
    ),
    Level(
        "The gap",
        "lose an entry that the writer has confirmed.",
        Scenario(Cluster(2), (_STRIPED, _RECOVER)),
        "LAC out of order",
        _LOST,
        states=182,
        tried=258,
        solution=_moves("r>r 0, w>b1 2, r>b0 2, b0>r 2, r>b1 2, b1>r 2, r>b0 3, b1>w 2, b0>r 3"),
        explanation="The bug is that of level 2: the writer confirmed entry 1 before"
        " entry 0. The reader found that no bookie had stored entry 0, so it closed the ledger"
        " before it. The correct writer would not have confirmed entry 1 yet.",
    ),
    Level(
        "Nobody told the writer",
        "lose an entry that the writer has confirmed.",
        _TWO,
        "recovery without fencing",
        _LOST,
        states=533,
        tried=569,
        solution=_moves("r>r 0, w>b1 2, r>b0 2, b0>r 2, r>b0 3, w>b0 2, b0>w 2, b0>r 3, b1>w 2"),
        explanation="The bug: the reader does not fence the bookies. After it had found a"
        " bookie without the entry, the bookies still accepted the entry, and the writer"
        " confirmed it. The correct reader fences the bookies first, and a fenced bookie refuses"
        " the writer.",
    ),
    Level(
        "The fence with a hole",
        "lose an entry that the writer has confirmed.",
        _TWO,
        "no fencing on recovery reads",
        _LOST,
        losses=1,
        states=6_390,
        tried=9_442,
        solution=_moves(
            "r>r 0, lose r>b1 2, w>b0 2, r>b0 2, b0>w 2, b0>r 2, r>b1 3, b1>r 2, w>b1 2, b1>w 2"
        ),
        explanation="The bug: the reader fences a bookie only with its first request,"
        " which b1 never received. When b1 reported that it did not have entry 0, it was not"
        " fenced, so it accepted the entry later. The correct reader fences with every request.",
    ),
    Level(
        "A single witness",
        "lose an entry that the writer has confirmed.",
        _THREE,
        "recovery trusts one bookie",
        _LOST,
        states=99_567,
        tried=6_572,
        solution=_moves(
            "w>b2 2, w>b0 2, b2>w 2, r>r 0, b0>w 2, r>b1 2, r>b0 2, b1>r 2, b0>r 2, r>b1 3, b1>r 3"
        ),
        explanation="The bug: the reader closes the ledger as soon as one of the three"
        " bookies does not have the entry, but the other two may have confirmed it. The correct"
        " reader waits until two bookies do not have it: then two acknowledgements are"
        " impossible.",
    ),
    Level(
        "Three against the fence",
        "lose an entry that the writer has confirmed.",
        _THREE,
        "recovery without fencing",
        _LOST,
        states=99_567,
        tried=15_667,
        solution=_moves(
            "r>r 0, w>b0 2, b0>w 2, r>b1 2, r>b2 2, b1>r 2, b2>r 2, r>b1 3, w>b1 2, b1>w 2,"
            " r>b2 3, b1>r 3, b2>r 3"
        ),
        explanation="The bug is that of level 7: the reader does not fence the bookies."
        " Two of them did not have the entry when the reader asked, so it closes the ledger"
        " without it. One of these two accepted the entry later, and the writer confirmed it.",
    ),
)
