"""Chance: every decision has a name, a number and a harmless default, 0.

    delay w>b0 2     the third message from w to b0 comes that many milliseconds late
    lose w>b0 5      1: the sixth is lost

A decision's value depends on the seed and its name alone, so resetting one, or setting it by hand,
changes no other.  A run records the decisions that were not 0: with these and no seed the run is
repeated, and with fewer of them it is simpler.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b

from labkit.system.model.errors import BKIncorrectParameterException

_MASK = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15

_NAME = re.compile(
    "(?:(?:delay|lose|copy|swap) .+>.+|(?:disk|lose disk|reach|draw|expire|thaw|crash) .+|next)"
    " (?:0|[1-9][0-9]{0,9})"
)
_NAMES = (
    "delay w>b0 2, lose w>b0 2, copy w>b0 2, swap w>b0 2, disk b0 2, lose disk b0 2, reach b0 2,"
    " draw b0 2, expire w 2, thaw w 2, crash b0 2 and next 2"
)
_HIGHEST = 10.0**12

Spread = Callable[[float], float]
"""Makes a decision's value of a number drawn from [0, 1)."""


def yes(lot: float) -> float:
    """A decision to let something happen: 1."""
    return 1.0


def log_spread(lowest: float, highest: float) -> Spread:
    """A value of two digits, each order of magnitude as likely as another."""
    ratio = highest / lowest
    return lambda lot: float(f"{lowest * ratio**lot:.2g}")


def check_decisions(chosen: Mapping[str, float]) -> None:
    """Check the form of names and values; a run need not have a decision of that name.

    Raises `BKIncorrectParameterException`.
    """
    for name, value in chosen.items():
        if not _is_name(name):
            raise BKIncorrectParameterException(
                f"{name!r} is not a decision's name; such names are, with their numbers: {_NAMES}"
            )
        if not (isinstance(value, (int, float)) and 0 <= value <= _HIGHEST):
            raise BKIncorrectParameterException(
                f"the decision {name!r} is {value!r}; it must be a number from 0 (harmless) to"
                f" {_HIGHEST:,.0f}"
            )


@lru_cache(10_000)
def _is_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


class Decision:
    """All decisions of one name, told apart by their numbers."""

    __slots__ = ("_base", "_chosen", "_drawn", "_seed", "is_chosen", "name")

    def __init__(
        self, name: str, seed: int | None, chosen: Mapping[int, float], drawn: dict[str, float]
    ) -> None:
        self.name = name
        self._chosen = chosen
        self._drawn = drawn
        self.is_chosen = bool(chosen)
        """Whether some are set by hand."""
        self._seed = seed
        self._base = 0
        """A hash of seed and name, once a lot was drawn."""

    def take(self, number: int, share: float, spread: Spread = yes) -> float:
        """The decision of that number: 0, except for a `share` (0 to 1) of all numbers."""
        value = self._chosen.get(number)
        if value is None:
            if not share or self._seed is None:
                return 0.0
            lot = self._lot(number)
            if lot >= share:
                return 0.0
            # Below the share the lot is even again, so it draws the value as well.
            value = spread(lot / share)
        if value:
            self._drawn[f"{self.name} {number}"] = value
        return value

    def _lot(self, number: int) -> float:
        """A number in [0, 1), as good as random and always the same (SplitMix64's mixing)."""
        if not self._base:
            self._base = _hash(f"{self._seed} {self.name}")
        mixed = (self._base + number * _STEP) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return (mixed ^ (mixed >> 31)) / 2**64


class Decisions:
    """All decisions of a run.  `chosen` ones hold whatever the seed says; without a seed all
    others are harmless.
    """

    def __init__(self, seed: int | None, chosen: Mapping[str, float]) -> None:
        self.drawn: dict[str, float] = {}
        """The decisions that were not 0 so far, in the order in which they were made."""
        self.is_chosen = bool(chosen)
        """Whether some are set by hand."""
        self._seed = seed
        self._by_name: dict[str, Decision] = {}
        self._chosen: dict[str, dict[int, float]] = {}
        for key, value in chosen.items():
            name, _, number = key.rpartition(" ")
            self._chosen.setdefault(name, {})[int(number)] = value

    def of(self, name: str) -> Decision:
        decision = self._by_name.get(name)
        if decision is None:
            decision = Decision(name, self._seed, self._chosen.get(name, {}), self.drawn)
            self._by_name[name] = decision
        return decision


def _hash(text: str) -> int:
    # Never 0, which stands for no hash yet.
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") or 1
