"""Lets the reader play a run by hand, in the role of the network.

The view shows the cluster and, below it, the messages in flight. A click on a message delivers it;
buttons drop a message or cut a bookie's power. Each move runs the real code again, and broken
promises are shown immediately.

`labkit.course.runs.play` opens a scenario in this view, and `labkit.course.runs.game` adds levels.

Read the modules in this order: `plain_words` (sentences), `cards` (messages), `picture` (the
scene), then `PlayView` below.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from labkit.system.check import Verdict
from labkit.system.model.errors import LabkitError
from labkit.system.trace.cluster_state import fold
from labkit.system.trace.events import Event
from labkit.views.widgets.acts import NO_ACTS, Acts
from labkit.views.widgets.cluster.picture import ClusterPicture
from labkit.views.widgets.controls import Control, button, choice
from labkit.views.widgets.drawing.plurals import counted
from labkit.views.widgets.drawing.scene import Mark
from labkit.views.widgets.future_search import QUESTION, HasCurves
from labkit.views.widgets.late_syncs import late_sync_words
from labkit.views.widgets.play.cards import Message
from labkit.views.widgets.play.picture import PlayPicture, lines_above
from labkit.views.widgets.play.plain_words import (
    plain_sentence,
    plain_words,
    with_final_reader,
)
from labkit.views.widgets.playing import Linkable, PlayingView
from labkit.views.widgets.run import DisplayedRun, TraceLike
from labkit.views.widgets.scene_view import Message as PageMessage
from labkit.views.widgets.verdict_words import failure_of

FEWEST_ROWS = 2
Remark = tuple[str, str]
"""A line above the picture, and its colour."""


class Made(Protocol):
    """A move that the player made.

    event_count: the number of events before the move took effect.
    is_void: whether it delivered a message that was dropped.
    """

    @property
    def name(self) -> str: ...
    @property
    def words(self) -> str: ...
    @property
    def event_count(self) -> int: ...
    @property
    def is_void(self) -> bool: ...


class Playable(HasCurves, Protocol):
    """A run up to the last move."""

    @property
    def moves(self) -> tuple[str, ...]: ...
    @property
    def made(self) -> Sequence[Made]: ...
    @property
    def readers(self) -> Sequence[str]: ...
    @property
    def late_syncs(self) -> Mapping[int, int]: ...
    @property
    def trace(self) -> TraceLike: ...
    @property
    def in_flight(self) -> Sequence[Message]: ...
    @property
    def wait(self) -> str:
        """The move that lets requests time out, or "" if there is none."""

    @property
    def possible(self) -> tuple[str, ...]: ...
    @property
    def is_over(self) -> bool: ...
    @property
    def broken(self) -> Sequence[Verdict]: ...

    def before(self, count: int = 1) -> Self:
        """Return the run without its last `count` moves."""

    def after(self, *moves: str) -> Self:
        """Return the run that results from making these moves next. Raises `LabkitError` if the
        moves are impossible.
        """

    def to_the_end(self) -> Self:
        """Return the run in which all other messages arrive, the oldest first."""

    def whole(self) -> Linkable:
        """Return the run that continues to its end after the last move."""


def move_of(played: Playable, trace: TraceLike, seq: int) -> int | None:
    """Return the number of the move during which an event of the run happened: 0 before the first
    move, and None in the final check. `trace` may continue after the last move.
    """
    if any(event.kind == "epilogue.started" for event in trace.events[: seq + 1]):
        return None
    moves = [number for number, move in enumerate(played.made) if move.event_count <= seq]
    return 1 + max(moves, key=lambda number: (played.made[number].event_count, number), default=-1)


def moment_words(played: Playable, trace: TraceLike, seq: int) -> str:
    """Describe when an event of the run happened, by the player's moves."""
    number = move_of(played, trace, seq)
    if number is None:
        return "When every entry is read back"
    if number == 0:
        return "At the start"
    if seq >= len(played.trace.events):
        return "After the last move"
    return f"Move {number} ({played.made[number - 1].words})"


class PlayView(PlayingView):
    """Shows a run that the reader plays.

    played: the run so far.
    at: the `seq` of the event at which the view opens; by default, the last one.
    """

    question = "You are the network: which message arrives next?"
    linked_as = "Play"
    has_waits = True
    """Whether the player can let requests time out."""

    def __init__(self, played: Playable, at: int | None = None) -> None:
        self.played = played
        self.opens_at = at
        self._undone: list[str] = []
        self._changed_past = False
        self._continued: tuple[Any, Any] = (None, None)
        self.branches: list[Any] = []
        """Other plays. If the player undoes moves and then chooses differently, the old play is
        kept here.
        """
        self.comparison: PlayingView | None = None
        """Shows this play and a branch side by side, in place of the play."""
        super().__init__(played.trace)

    # To be defined by games and by `labkit.course.runs.play`

    def offers(self, move: str) -> bool:
        """Return whether the player is allowed to make this move, assuming that the move is
        possible.
        """
        return not self.played.is_over

    def allowed(self) -> list[str]:
        return [move for move in self.played.possible if self.offers(move)]

    def remarks(self) -> list[Remark]:
        """Return the lines of text above the picture, with their colours."""
        return [(f"{counted(len(self.played.moves), 'move')} so far", "ink")]

    def outcome(self) -> list[Remark]:
        """Return the lines of text about the outcome of the moves."""
        lines = [self.failure(each) for each in self.broken_promises()]
        if self.played.is_over and not self.played.broken:
            lines.append(("✔ All entries were read back; no promise was broken", "well"))
        return lines

    def last_move(self) -> str:
        """Describe the last move, unless an event at the end of the run already describes it."""
        last = self.played.made[-1] if self.played.made else None
        if last is None or self.played.is_over:
            return ""
        if last.is_void:
            return f"{last.words} was dropped, because its connection is closed."
        if self._changed_past:
            return f"{last.words}, right after the last message that it received."
        if last.event_count == len(self.played.trace.events):
            return f"{last.words} arrived. It changed only what is in flight."
        return ""

    def failure(self, verdict: Verdict) -> Remark:
        """Return a line about a broken promise."""
        return f"✘ {failure_of(verdict.name)}. {self.reason(verdict)}", "lost"

    def heading(self) -> str:
        """Return the line above the messages in flight."""
        return "In flight. Click the message that arrives next:"

    def recorded(self) -> str:
        """Return Python code that reproduces the played moves."""
        raise NotImplementedError

    def side_by_side(self, number: int) -> PlayingView:
        """Return a view that shows this play and the branch with this index."""
        raise NotImplementedError

    def reason(self, verdict: Verdict) -> str:
        moment = moment_words(self.played, self.played.trace, verdict.seq)
        return f"{moment}: {with_final_reader(verdict.explanation)}"

    def causes(self, verdict: Verdict) -> str:
        """Return the events that led to a broken promise, each with the number of its move."""
        lines, trace = list[str](), self.played.trace
        for event in verdict.lineage:
            number = move_of(self.played, trace, event.seq)
            when = {0: "start", None: "end"}.get(number, f"move {number}")
            arrow = "→" if event.seq == verdict.seq else " "
            lines.append(f"{arrow} {when:>7}  {self.sentence(event)}")
        return "\n".join(lines)

    def sentence(self, event: Event) -> str:
        if event.seq in self.played.late_syncs:
            return late_sync_words(event)
        return plain_sentence(event)

    def words(self, beat: Sequence[Event]) -> str:
        late = next((event for event in beat if event.seq in self.played.late_syncs), None)
        return self.sentence(late) if late else plain_words(beat)

    def broken_promises(self) -> Sequence[Verdict]:
        return self.played.broken

    def foreseeable(self) -> tuple[HasCurves, str] | None:
        promises = self.broken_promises()
        return (self.played, promises[0].name) if promises else None

    # The picture

    def picture(self, run: DisplayedRun, acts: Acts) -> PlayPicture:
        end = fold(run.events)
        last = max((each.last_add_pushed for each in end.ledgers.values()), default=0)
        bookies = tuple(end.bookies)
        rows = max(last + 1, FEWEST_ROWS)
        cluster = ClusterPicture(run, None, bookies, acts, (rows, rows))
        possible = self.allowed()
        cuts = {move.split()[1]: move for move in possible if move.startswith("crash ")}
        return PlayPicture(
            cluster,
            bookies,
            self.played.readers,
            self.played.late_syncs,
            self.played.in_flight,
            cuts,
            self.heading() if self.played.in_flight else "Nothing in flight",
            possible.__contains__,
        )

    def still(self, picture: PlayPicture, *above: Mark) -> str:
        return super().still(picture, lines_above([*self.remarks(), *self.outcome()]), *above)

    def texts(self) -> list[tuple[str, str]]:
        found = []
        for verdict in self.broken_promises():
            why = f"{self.reason(verdict)}\n\n{self.causes(verdict)}"
            found.append((f"Why “{failure_of(verdict.name)}”", why))
        if self.played.moves:
            moves = enumerate(self.played.made, 1)
            found.append(("Your moves", "\n".join(f"{at:>3}  {each.words}" for at, each in moves)))
        return found

    def acts(self) -> Acts:
        return NO_ACTS

    def choices(self) -> list[Control]:
        if self.comparison:
            return [button("back", "Back to the play"), *self.comparison.choices()]
        allowed, moves = self.allowed(), bool(self.played.moves)
        can_deliver = any(move.startswith("deliver ") for move in allowed)
        found = [
            button("undo", "Undo", moves),
            button("redo", "Redo", bool(self._undone)),
            button("again", "Start over", moves),
            button("rest", "Deliver the rest", can_deliver),
        ]
        if self.has_waits:
            found.append(button("wait", "Let requests time out", self.played.wait in allowed))
        return found + self.comparing()

    def comparing(self) -> list[Control]:
        """Return the controls for earlier tries and other futures."""
        others = [(str(at), _branch_words(at, each)) for at, each in enumerate(self.branches)]
        this, other = ("this one", "an earlier try") if others else ("none", "none")
        return [
            choice("branch", "Earlier tries", "", [("", this), *others]),
            choice("compare", "Compare with", "", [("", other), *others]),
            *(self.search_control() or [button("futures", QUESTION, can_press=False)]),
        ]

    def choose(self, name: str, value: Any, seq: int) -> None:
        moves = self.played.moves
        if self.comparison and name != "back":
            self.comparison.choose(name, value, seq)
            self.update_page()
        elif name == "back":
            self.comparison = None
            self.show(self.played)
        elif name == "undo" and moves:
            self._undone.append(moves[-1])
            self.show(self.played.before())
        elif name == "redo" and self._undone:
            self.show(self.played.after(self._undone.pop()))
        elif name == "rest":
            self.make(self.played.to_the_end())
        elif name == "wait":
            self.make(self.played.after(self.played.wait))
        elif name == "again":
            self._undone += reversed(moves)
            self.show(self.played.before(len(moves)))
        elif name == "branch" and value:
            branch = self.branches.pop(int(value))
            self._keep()
            self._undone = []
            self.show(branch)
        elif name == "compare" and value:
            self.comparison = self.side_by_side(int(value))
            self.update_page()
        else:
            super().choose(name, value, seq)

    def pressed(self, act: str, on: str, seq: int) -> None:
        if act not in ("deliver", "move") or on not in self.allowed():
            super().pressed(act, on, seq)
            return
        try:
            after = self.played.after(on)
        except LabkitError as error:
            self.notice = f"This move is impossible here: {error}"
        else:
            self.make(after)

    def make(self, after: Any) -> None:
        """Show the run that results from a new move. If the new move differs from the moves that
        were undone, keep the play with the undone moves as a branch.
        """
        earlier = (*self.played.moves, *reversed(self._undone))
        if after.moves == earlier[: len(after.moves)]:
            self._undone = list(reversed(earlier[len(after.moves) :]))
        else:
            if earlier != after.moves[: len(earlier)]:
                self._keep()
            self._undone = []
        self.show(after)

    def _keep(self) -> None:
        """Keep this play, including its undone moves, as a branch."""
        play = self.played.after(*reversed(self._undone)) if self._undone else self.played
        if play.moves and all(play.moves != each.moves for each in self.branches):
            self.branches.append(play)

    def begin(self, played: Any) -> None:
        """Show another run, and forget all branches and undone moves."""
        self.branches, self._undone = [], []
        self.show(played)

    def show(self, played: Any, at: int | None = None) -> None:
        """Show a run, opened at its event `at` or, by default, at its last event."""
        before, shown = {verdict.name for verdict in self.broken_promises()}, self.run.events
        is_new_move = played.moves[:-1] == self.played.moves
        self._changed_past = is_new_move and list(played.trace.events[: len(shown)]) != shown
        self.played, self.opens_at = played, at
        self.switch_to(played.trace)
        fresh = [each for each in self.broken_promises() if each.name not in before]
        self.notice = "; ".join(f"✘ {failure_of(each.name)}" for each in fresh)

    def opening(self) -> float:
        at, last = self.opens_at, len(self.run.events) - 1
        if at is not None and min(at, last) == self._last_seq:
            self.opens_at = None
        return super().opening()

    def moment(self) -> float:
        """Return the position at which a page continues, which is the end if there is nothing new
        to play.
        """
        is_new = self.played.moves and not self._changed_past
        return super().moment() if is_new else self.opening()

    @property
    def _last_seq(self) -> int:
        """The `seq` of the last event before the final check."""
        events = self.run.events
        end = next((e.seq for e in events if e.kind == "epilogue.started"), len(events))
        return end - 1

    def record_run(self) -> None:
        super().record_run()
        if words := self.last_move():
            last = self.reel.beats[-1]
            self.reel.add(last._replace(at=self.run.clock.end, words=words))

    def whole(self) -> PageMessage:
        if self.comparison:
            return self.comparison.whole() | {"stays": True}
        latest = self.run.at(self._last_seq)
        broke = [self.run.at(each.seq) for each in self.broken_promises()]
        return super().whole() | {
            "stays": True,
            "code": self.recorded(),
            "remarks": self.remarks(),
            "outcome": self.outcome(),
            "latest": round(latest, 1),
            "broke": round(min([latest, *broke]), 1),
        }

    def link(self) -> str:
        return self.continued().link(self.linked_as, self.selection())

    def continued(self) -> Any:
        """Return the run that continues to its end after the last move."""
        played, continued = self._continued
        if played is not self.played:
            continued = self.played.whole()
            self._continued = self.played, continued
        return continued

    def __repr__(self) -> str:
        where = "over" if self.played.is_over else f"{len(self.played.in_flight)} in flight"
        broken = ", ".join(failure_of(each.name) for each in self.played.broken)
        return f"Play: {len(self.played.moves)} moves, {where}" + (f"; ✘ {broken}" * bool(broken))


def _branch_words(index: int, branch: Playable) -> str:
    broken = f", ✘ {failure_of(branch.broken[0].name)}" if branch.broken else ""
    return f"{index + 1}: {counted(len(branch.moves), 'move')}{broken}"
