"""Random decisions, each with a name, a number and a harmless default value of 0.

    delay w>b0 2     delays the third message from w to b0 by that many milliseconds
    lose w>b0 5      if 1, the sixth message is lost

The value of a decision depends only on the seed and on the decision's name, so resetting a decision
or setting it by hand does not affect any other decision. A run records the decisions whose value
was not 0. These decisions are sufficient to reproduce the run without the seed, and removing some
of them makes the run simpler.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b

from labkit.system.model.errors import BKIncorrectParameterException

_MASK = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15

_NAME = re.compile(
    "(?:(?:delay|lose|copy|swap) .+>.+|(?:disk|lose disk|reach|draw|expire|thaw|crash) .+"
    "|next|wait) (?:0|[1-9][0-9]{0,9})"
)
_EXAMPLES = (
    "delay w>b0 2, lose w>b0 2, copy w>b0 2, swap w>b0 2, disk b0 2, lose disk b0 2, reach b0 2,"
    " draw b0 2, expire w 2, thaw w 2, crash b0 2, next 2 and wait 2"
)
_MAX_VALUE = 10.0**12

Spread = Callable[[float], float]
"""Maps a random number from [0, 1) to the value of a decision."""


def yes(draw: float) -> float:
    """Return 1, the only value of a yes-or-no decision other than 0."""
    return 1.0


def log_spread(lowest: float, highest: float) -> Spread:
    """Return a distribution of values with two significant digits in which all orders of magnitude
    are equally likely.
    """
    ratio = highest / lowest
    return lambda draw: float(f"{lowest * ratio**draw:.2g}")


def check_decisions(chosen: Mapping[str, float]) -> None:
    """Raise `BKIncorrectParameterException` if a name or a value is invalid, even if the run would
    never use it.
    """
    for name, value in chosen.items():
        if not _is_valid_name(name):
            raise BKIncorrectParameterException(
                f"{name!r} is not the name of a decision; examples of valid names: {_EXAMPLES}"
            )
        if not (isinstance(value, (int, float)) and 0 <= value <= _MAX_VALUE):
            raise BKIncorrectParameterException(
                f"decision {name!r} must be a number from 0 (harmless) to {_MAX_VALUE:,.0f},"
                f" got {value!r}"
            )


@lru_cache(10_000)
def _is_valid_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


_SENTENCES = {
    "delay": "message {number} from {source} to {target} came {value:g} ms late",
    "lose": "message {number} from {source} to {target} was lost",
    "copy": "message {number} from {source} to {target} arrived twice",
    "swap": "later messages overtook message {number} from {source} to {target}",
    "disk": "disk call {number} of {source} took {value:g} ms longer",
    "crash": "{source} lost power after it had received {number} messages",
    "wait": "{value:g} ms passed before choice {number}",
}


def sentence_of(name: str, value: float) -> str:
    """Describe a decision in words. Messages, disk calls and choices are numbered from 0."""
    kind, _, rest = name.partition(" ")
    ends, _, number = rest.rpartition(" ")
    source, _, target = ends.partition(">")
    template = _SENTENCES.get(kind)
    if template is None:
        return f"the decision {name} was {value:g}"
    return template.format(number=number, source=source, target=target, value=value)


class DecisionSeries:
    """The decisions that share a name and differ only in their number."""

    __slots__ = ("_base", "_chosen", "_record", "_seed", "is_chosen", "name")

    def __init__(
        self,
        name: str,
        seed: int | None,
        chosen: Mapping[int, float],
        record: Callable[[str, float], None],
    ) -> None:
        self.name = name
        self._chosen = chosen
        self._record = record
        self.is_chosen = bool(chosen)
        """Whether any of these decisions has been set explicitly."""
        self._seed = seed
        self._base = 0
        """A hash of seed and name, computed at the first draw."""

    def value_of(self, number: int, share: float, spread: Spread = yes) -> float:
        """Return the value of the decision with this number.

        Decisions that are not set explicitly are 0, except for a random `share` (0 to 1) of them.
        """
        value = self._chosen.get(number)
        if value is None:
            if not share or self._seed is None:
                return 0.0
            draw = self._random(number)
            if draw >= share:
                return 0.0
            # A draw below `share` is uniformly distributed, so reuse it to draw the value.
            value = spread(draw / share)
        if value:
            self._record(f"{self.name} {number}", value)
        return value

    def draw_anew(self, seed: int) -> None:
        self._chosen, self._seed, self._base = {}, seed, 0

    def _random(self, number: int) -> float:
        """Return a reproducible pseudo-random number in [0, 1), computed as in SplitMix64."""
        if not self._base:
            self._base = _hash(f"{self._seed} {self.name}")
        mixed = (self._base + number * _STEP) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return (mixed ^ (mixed >> 31)) / 2**64


class Decisions:
    """All decisions of a run. Decisions in `chosen` have the given values. All others are drawn
    from the seed, or are 0 if there is no seed.
    """

    def __init__(
        self, seed: int | None, chosen: Mapping[str, float], now_us: Callable[[], int]
    ) -> None:
        self.drawn: dict[str, float] = {}
        """All decisions so far whose value was not 0, in the order in which they were made."""
        self.made_at_us: dict[str, int] = {}
        """The virtual time at which each of these decisions was made."""
        self._now_us = now_us
        self._seed = seed
        self._by_name: dict[str, DecisionSeries] = {}
        self._chosen: dict[str, dict[int, float]] = {}
        for key, value in chosen.items():
            name, _, number = key.rpartition(" ")
            self._chosen.setdefault(name, {})[int(number)] = value

    def of(self, name: str) -> DecisionSeries:
        decision = self._by_name.get(name)
        if decision is None:
            decision = DecisionSeries(name, self._seed, self._chosen.get(name, {}), self.record)
            self._by_name[name] = decision
        return decision

    def record(self, name: str, value: float) -> None:
        self.drawn[name] = value
        self.made_at_us[name] = self._now_us()

    def draw_anew(self, seed: int) -> None:
        """From now on, draw all decisions from this seed, even explicitly set ones."""
        self._seed, self._chosen = seed, {}
        for decision in self._by_name.values():
            decision.draw_anew(seed)


def _hash(text: str) -> int:
    # Never return 0, because it means "not computed yet".
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") or 1
