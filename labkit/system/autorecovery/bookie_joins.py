"""Lets multiple tasks wait for a bookie to register."""

import asyncio
from collections.abc import Collection

from labkit.system.metadata.bookie_watch import BookieWatch


class BookieJoins:
    """Start `run` before the first call to `wait`."""

    def __init__(self, bookies: BookieWatch) -> None:
        self._bookies = bookies
        self._alive: tuple[str, ...] | None = None
        """The registered bookies, or None until `run` has read the list."""
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Watch the list of registered bookies forever."""
        while True:
            self._alive = (await self._bookies.now()).alive
            # Replace the event, so that a task that waits again waits for the next change.
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            await self._bookies.changed()

    async def wait(self, registered: Collection[str]) -> None:
        """Wait until a bookie that is not in `registered` registers, or until one of them leaves
        and re-registers.
        """
        present = set(registered)
        while self._alive is None or present.issuperset(self._alive):
            if self._alive is not None:
                present.intersection_update(self._alive)
            await self._changed.wait()
