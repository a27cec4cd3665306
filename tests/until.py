"""Wait for a condition, with a deadline, instead of sleeping for a fixed time."""

import asyncio
from collections.abc import Awaitable, Callable

DEADLINE_S = 30.0


async def until(condition: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Wait until the condition is true; fail at the deadline."""
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


async def until_true(ask: Callable[[], Awaitable[bool]], deadline_s: float = DEADLINE_S) -> None:
    """Wait until `ask` returns true; fail at the deadline."""
    async with asyncio.timeout(deadline_s):
        while not await ask():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.02)
