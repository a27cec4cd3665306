"""Test when the auditor's periodic checks are due."""

from math import inf

import pytest

from labkit.system.autorecovery.periodic_check import PeriodicCheck
from labkit.system.autorecovery.underreplication import NEVER_MS

NOW_S = 50.0
WALL_CLOCK_MS = 1_000_000


async def begun(interval_s: int, last_ms: int | None) -> PeriodicCheck:
    """Return a check in the state right after its auditor has been elected."""

    async def last() -> int:
        assert last_ms is not None
        return last_ms

    async def run() -> bool:
        return True

    check = PeriodicCheck(interval_s, run, None if last_ms is None else last)
    await check.begin(lambda: NOW_S, lambda: WALL_CLOCK_MS)
    return check


@pytest.mark.parametrize(
    ("last_ms", "due_at"),
    [
        (NEVER_MS, NOW_S),
        (WALL_CLOCK_MS - 30_000, NOW_S + 70),
        (WALL_CLOCK_MS - 100_000, NOW_S),
        (WALL_CLOCK_MS - 900_000, NOW_S),
        (WALL_CLOCK_MS + 500_000, NOW_S + 100),
    ],
    ids=["never", "lately", "now", "long ago", "by a clock that is fast"],
)
async def test_a_new_auditor_continues_the_schedule_of_the_previous_one(
    last_ms: int, due_at: float
) -> None:
    assert (await begun(100, last_ms)).due_at == due_at


async def test_a_check_without_an_interval_is_never_due() -> None:
    check = await begun(0, NEVER_MS)
    assert check.due_at == inf


async def test_a_check_without_a_stored_time_runs_once_per_auditor() -> None:
    check = await begun(0, None)
    assert check.due_at == NOW_S
    check.reschedule(NOW_S + 1)
    assert check.due_at == inf


async def test_the_interval_counts_from_the_end_of_a_check() -> None:
    check = await begun(100, NEVER_MS)
    check.reschedule(NOW_S + 7)
    assert check.due_at == NOW_S + 107
