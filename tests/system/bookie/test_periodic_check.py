"""Tests for polls, which check a condition at intervals until it holds, on any event loop."""

import asyncio

from labkit.system.bookie.periodic_check import PeriodicCheck


def test_a_poll_acts_once_when_it_finds_its_condition_true() -> None:
    async def main() -> list[int]:
        answers, acted = [False, False, True, True], asyncio.Event()
        poll = PeriodicCheck(0.001, lambda: answers.pop(0), acted.set)
        poll.begin()
        async with asyncio.timeout(60):
            await acted.wait()
        return list(map(int, answers))

    # The poll checked its condition three times and stopped after it had acted.
    assert asyncio.run(main()) == [1]


def test_a_poll_that_has_ended_is_silent() -> None:
    async def main() -> list[str]:
        acted: list[str] = []
        later = asyncio.Event()
        ended = PeriodicCheck(0.001, lambda: True, lambda: acted.append("ended"))
        ended.begin()
        PeriodicCheck(0.01, lambda: True, later.set).begin()
        ended.end()
        async with asyncio.timeout(60):
            await later.wait()
        return acted

    assert asyncio.run(main()) == []
