"""The schedule of faults, which is reproducible from its seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

KILL, PAUSE, CUT = "kill", "pause", "cut"
MOST_AT_ONCE = 2
"""With at most two of five bookies down, three are left, and some ledgers have to wait for one to
return.
"""
POWER_CUT_EVERY_S = 90.0
"""From time to time, all bookies are killed at the same time."""
GAP_S = (0.2, 2.5)
LENGTHS_S = ((0.0, 0.5), (0.5, 3.0), (5.0, 9.0))
"""Too short to be noticed; shorter than the session timeout; longer than the session timeout."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault. From `at_s` on, the bookies are dead, paused or unreachable for `for_s` seconds."""

    at_s: float
    kind: str
    bookies: tuple[str, ...]
    for_s: float

    def __str__(self) -> str:
        return f"{self.at_s:7.1f} s  {self.kind:5} {', '.join(self.bookies)} for {self.for_s:.1f} s"


def make_schedule(
    seed: int, seconds: float, bookies: Sequence[str], kinds: Sequence[str]
) -> list[Fault]:
    """Return faults that begin within `seconds`; no bookie has two faults at the same time."""
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
