"""The view of the game, which shows the level's goal, your moves, par, and whether you have won."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from labkit.course.runs.game.levels import LEVELS, RULES, Level
from labkit.course.runs.play import Play
from labkit.system.check import Verdict
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.views.widgets.controls import Control, button, choice
from labkit.views.widgets.drawing.plurals import counted
from labkit.views.widgets.play import Remark
from labkit.views.widgets.scene_view import Message
from labkit.worlds.sim.play.played import play
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.variants.variants import VARIANTS


class Game(Play):
    """Play a level: break the faulty protocol's promise in as few moves as you can.

    level: 1 to 10.
    at: the `seq` of the event at which the view opens; by default, this is the last event.
    """

    linked_as = "Game"
    level: Level

    def __init__(self, level: int = 1, *, at: int | None = None) -> None:
        if level not in range(1, len(LEVELS) + 1):
            raise BKIncorrectParameterException(f"there is no level {level}, only 1 to 10")
        self.number = level
        self.level = LEVELS[level - 1]
        self.is_faulty = True
        super().__init__(self.level.faulty, at=at)

    @classmethod
    def of(cls, scenario: Scenario, at: int, level: int = 0) -> "Game":
        """Return the game whose moves are the scenario's decisions.

        level: the level to open if the scenario belongs to several levels.

        Raises `BKIncorrectParameterException` if the scenario belongs to no level.
        """
        played = play(scenario)
        correct = replace(played.start, variant="")
        variant = played.start.variant
        for number, each in sorted(enumerate(LEVELS, 1), key=lambda item: item[0] != level):
            if replace(each.scenario, in_turn=True) == correct and variant in ("", each.variant):
                game = cls(number, at=at)
                game.is_faulty = bool(variant)
                game.show(played, at)
                return game
        raise BKIncorrectParameterException("the link's scenario belongs to no level of the game")

    def selection(self) -> Message:
        return {"level": self.number}

    @property
    def has_won(self) -> bool:
        return any(each.name == self.level.promise for each in self.played.broken)

    def broken_promises(self) -> Sequence[Verdict]:
        """If the level's promise is broken, return only the verdict on it; otherwise, return the
        verdict on the first broken promise. The game explains only one broken promise.
        """
        broken = sorted(self.played.broken, key=lambda each: each.name != self.level.promise)
        return broken[:1]

    def _left(self, kind: str) -> int:
        """Return how many more power cuts (`crash`) or losses (`lose`) the level allows."""
        return self.level.allowed(kind) - sum(
            move.startswith(f"{kind} ") for move in self.played.moves
        )

    has_waits = False

    def offers(self, move: str) -> bool:
        kind = move.split(maxsplit=1)[0]
        return not self.has_won and (kind == "deliver" or self._left(kind) > 0)

    def remarks(self) -> list[Remark]:
        level, moves = self.level, len(self.played.moves)
        lines: list[Remark] = [
            (f"Level {self.number} of {len(LEVELS)}: {level.title}", "ink"),
            (f"Goal: {level.goal}", "stored"),
        ]
        if self.has_won:
            return [*lines, (self._praise(), "well")]
        par = f", par {level.par} (all shorter plays were tried)" if self.is_faulty else ""
        score = [f"{counted(moves, 'move')}{par}"]
        for kind, what in (("crash", "power cuts left"), ("lose", "losses left")):
            if level.allowed(kind):
                score.append(f"{what}: {self._left(kind)}")
        return [*lines, ("; ".join(score), "ink")]

    def outcome(self) -> list[Remark]:
        lines: list[Remark] = []
        if self.has_won:
            lines.append((self.level.explanation, "ink"))
        elif self.played.broken:
            lines.append(("This promise is broken, but the goal is not reached yet:", "ink"))
        lines += [self.failure(each) for each in self.broken_promises()]
        if self.played.is_over and not self.has_won and self.is_faulty:
            lines.append((self._missed(), "lost"))
        if not self.is_faulty:
            lines.append((self._correct(), "well"))
        return lines

    def _missed(self) -> str:
        unused = " You can still cut the power of a bookie." if self._left("crash") else ""
        unused += " You could still have lost a message." if self._left("lose") else ""
        return (
            "The run has ended, because no message was in flight, and the goal was not reached."
            f"{unused} Undo some moves, or start over."
        )

    def heading(self) -> str:
        return (
            "You have reached the goal, so what is still in flight no longer matters."
            if self.has_won
            else super().heading()
        )

    def _praise(self) -> str:
        par, moves = self.level.par, len(self.played.moves)
        if self.used_solution and self.played.moves == self.level.solution:
            return f"✔ This is how to reach the goal in {moves} moves."
        if moves > par:
            return f"✔ You reached the goal in {moves} moves. It is possible in {par}."
        return f"✔ You reached the goal in {moves} moves: par!"

    def _correct(self) -> str:
        failures = " and failures" if self.level.crashes or self.level.losses else ""
        return (
            "This is the correct protocol. It cannot be beaten here: all orders of messages"
            f"{failures} were tried, {self.level.states:,} states, and none breaks a promise."
        )

    used_solution = False
    """Whether labkit's own moves have been shown since the player last started over."""

    def texts(self) -> list[tuple[str, str]]:
        hint = f"{VARIANTS[self.level.variant].description}."
        return [
            ("How it works", RULES),
            ("Hint: the bug", hint[0].upper() + hint[1:]),
            *super().texts(),
        ]

    def choices(self) -> list[Control]:
        levels = [(str(at), f"{at}: {each.title}") for at, each in enumerate(LEVELS, 1)]
        if self.comparison:
            return super().choices()
        protocols = [("faulty", "faulty"), ("correct", "correct")]
        return [
            choice("level", "Level", str(self.number), levels),
            choice("protocol", "Protocol", "faulty" if self.is_faulty else "correct", protocols),
            *super().choices(),
        ]

    def comparing(self) -> list[Control]:
        return [
            button("solution", "Solution", self.is_faulty and not self.has_won),
            button("next", "Next level", self.has_won and self.number < len(LEVELS)),
            *super().comparing(),
        ]

    def whole(self) -> Message:
        is_solved = self.has_won and not self.used_solution
        return super().whole() | {"solved": self.number if is_solved else 0}

    def choose(self, name: str, value: Any, seq: int) -> None:
        if name == "level":
            self._open(int(value))
        elif name == "next":
            self._open(self.number + 1)
        elif name == "protocol":
            self._open(self.number, is_faulty=value == "faulty")
        elif name == "solution":
            self.used_solution = True
            self.make(play(self.level.faulty, self.level.solution))
        else:
            if name == "again":
                self.used_solution = False
            super().choose(name, value, seq)

    def _open(self, number: int, *, is_faulty: bool = True) -> None:
        self.number, self.level, self.is_faulty = number, LEVELS[number - 1], is_faulty
        self.used_solution = False
        self.begin(play(self.level.faulty if is_faulty else self.level.scenario))
