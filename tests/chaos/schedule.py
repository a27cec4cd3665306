"""What is done to the bookies, and when: a value, which a seed gives again."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

KILL, PAUSE, CUT = "kill", "pause", "cut"
MOST_AT_ONCE = 2
"""Of five bookies: three are left, and some ledgers must wait for one of the two."""
POWER_CUT_EVERY_S = 90.0
"""Now and then all bookies are killed at once."""
GAP_S = (0.2, 2.5)
LENGTHS_S = ((0.0, 0.5), (0.5, 3.0), (5.0, 9.0))
"""Unnoticed, within a session's time, and longer than a session lives."""


@dataclass(frozen=True, slots=True)
class Fault:
    """From `at_s` on, for `for_s` seconds, these bookies are dead, stopped or unreachable."""

    at_s: float
    kind: str
    bookies: tuple[str, ...]
    for_s: float

    def __str__(self) -> str:
        return f"{self.at_s:7.1f} s  {self.kind:5} {', '.join(self.bookies)} for {self.for_s:.1f} s"


def make_schedule(
    seed: int, seconds: float, bookies: Sequence[str], kinds: Sequence[str]
) -> list[Fault]:
    """Faults that begin within `seconds`; a bookie suffers one at a time."""
    lots = random.Random(seed)
    busy_until = dict.fromkeys(bookies, 0.0)
    faults: list[Fault] = []
    now, power_cut_at = 0.0, lots.uniform(0.3, 1.0) * POWER_CUT_EVERY_S
    while (now := now + lots.uniform(*GAP_S)) < seconds:
        for_s = lots.uniform(*lots.choice(LENGTHS_S))
        free = [bookie for bookie, until in busy_until.items() if until <= now]
        if now >= power_cut_at:
            now = max(now, *busy_until.values())
            power_cut_at = now + lots.uniform(0.3, 1.0) * POWER_CUT_EVERY_S
            fault = Fault(now, KILL, tuple(bookies), min(for_s, 2.0))
        elif len(bookies) - len(free) >= MOST_AT_ONCE:
            continue
        else:
            fault = Fault(now, lots.choice(kinds), (lots.choice(free),), for_s)
        faults.append(fault)
        busy_until.update(dict.fromkeys(fault.bookies, now + fault.for_s))
    return faults
