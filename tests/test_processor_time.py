"""Tests that code that never advances virtual time is stopped by its processor time limit."""

import asyncio

import pytest

from labkit.worlds.sim.machine.loop import SimLoop
from tests.processor_time import processor_time


def test_code_that_asks_again_and_again_without_a_pause_ends_with_the_reason() -> None:
    async def asks() -> None:
        while True:  # noqa: ASYNC110 - the mistake itself
            await asyncio.sleep(0)

    with pytest.raises(SystemExit, match="time stands still here"), processor_time(0.1):
        SimLoop(time_limit_s=10).run(asks())


def test_code_that_ends_in_time_is_left_alone() -> None:
    with processor_time(0.05):
        pass
    total = sum(number * number for number in range(1_000_000))
    assert total > 0
