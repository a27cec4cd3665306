"""Questions of the epilogue: its last session may have ended with the last fault."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from labkit.system.metadata.store import MetadataUnavailableError

T = TypeVar("T")

ASK_EVERY_S = 0.2


async def retried(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer, however often it takes until the metadata store can be reached again.  Raises
    whatever else `ask` raises.
    """
    while True:
        try:
            return await ask()
        except MetadataUnavailableError:
            await asyncio.sleep(ASK_EVERY_S)
