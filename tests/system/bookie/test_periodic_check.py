"""Tests for checks that are repeated at intervals until a condition holds, on any event loop."""

import asyncio

from labkit.system.bookie.periodic_check import PeriodicCheck


def test_a_wait_ends_once_its_condition_holds() -> None:
    async def main() -> list[int]:
        answers = [False, False, True, True]
        check = PeriodicCheck(0.001, lambda: answers.pop(0))
        async with asyncio.timeout(60):
            await check.wait()
            await PeriodicCheck(0.01, lambda: True).wait()
        return list(map(int, answers))

    # The condition was checked three times, and not again after the wait had ended.
    assert asyncio.run(main()) == [1]


def test_a_wait_that_is_ended_checks_nothing_more() -> None:
    async def main() -> int:
        answers = [False] * 3
        ended = PeriodicCheck(0.001, lambda: answers.pop(0))
        async with asyncio.timeout(60):
            ended.end_wait()
            await ended.wait()
            await PeriodicCheck(0.01, lambda: True).wait()
        return len(answers)

    assert asyncio.run(main()) == 3


def test_a_cancelled_wait_checks_nothing_more() -> None:
    async def main() -> int:
        answers = [False] * 1000
        cancelled = PeriodicCheck(0.001, lambda: answers.pop(0))
        waiting = asyncio.create_task(cancelled.wait())
        async with asyncio.timeout(60):
            while len(answers) == 1000:  # noqa: ASYNC110 - the check has no event
                await asyncio.sleep(0.001)
            waiting.cancel()
            await asyncio.wait([waiting])
            left = len(answers)
            await PeriodicCheck(0.05, lambda: True).wait()
        return left - len(answers)

    assert asyncio.run(main()) == 0
