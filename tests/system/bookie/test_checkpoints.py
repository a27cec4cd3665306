"""Test when a bookie makes a checkpoint, with a fake store in virtual time."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from labkit.system.bookie.checkpoints import Checkpoints
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim.machine.loop import SimLoop

INTERVAL_MS = 100


class PlayedStore:
    """A fake store that records when it was flushed."""

    def __init__(self) -> None:
        self.mark_can_advance = self.needs_checkpoint = self.start_lacked_space = False
        self.fills_while_flushed = False
        self.flushed_at: list[float] = []

    def begin_checkpoint(self) -> None:
        self.mark_can_advance = self.needs_checkpoint = False

    def flush(self, _: None) -> None:
        self.flushed_at.append(round(asyncio.get_running_loop().time(), 6))

    def end_checkpoint(self) -> None:
        """Finish the flush; if entries were added during it, the store needs another checkpoint."""
        self.needs_checkpoint, self.fills_while_flushed = self.fills_while_flushed, False


def flushes(*changes: tuple[float, str], until_s: float = 1.0) -> list[float]:
    """Return the times at which the store is flushed if its flags are set at the given times."""

    async def run_in_flush_thread(call: Callable[[], Any]) -> Any:
        return call()

    async def world() -> list[float]:
        store = PlayedStore()
        checkpoints = Checkpoints(
            cast(LedgerStore, store), run_in_flush_thread, INTERVAL_MS, lambda: None, lambda _: None
        )

        def change(what: str) -> None:
            setattr(store, what, True)
            checkpoints.start_if_needed()

        running = asyncio.create_task(checkpoints.run())
        for at, what in changes:
            asyncio.get_running_loop().call_later(at, change, what)
        await asyncio.sleep(until_s)
        running.cancel()
        return store.flushed_at

    return SimLoop(event_budget=10_000).run(world())


def test_nothing_new_is_not_flushed() -> None:
    assert flushes() == []


def test_what_is_new_is_flushed_once_when_the_interval_has_passed() -> None:
    assert flushes((0.25, "mark_can_advance"), (0.61, "mark_can_advance")) == [0.3, 0.7]


def test_a_full_memtable_is_flushed_at_once_and_the_interval_begins_again() -> None:
    assert flushes((0.25, "needs_checkpoint"), (0.26, "mark_can_advance")) == [0.25, 0.35]


def test_a_memtable_that_fills_while_the_last_one_is_flushed_is_flushed_at_once() -> None:
    changes = (0.25, "fills_while_flushed"), (0.25, "needs_checkpoint")
    assert flushes(*changes) == [0.25, 0.25]
