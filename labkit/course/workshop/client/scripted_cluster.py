"""Defines the base class of the clusters on which a test runs the learner's writer, reader or
recovery.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from labkit.course.checking.refused import Refused
from labkit.course.workshop.generated_cases import Problem
from labkit.course.workshop.learner import Learner
from labkit.system.client.striping import write_set
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKDigestMatchException,
    BKException,
    BKMetadataVersionException,
    BKNoSuchEntryException,
    BKNoSuchLedgerExistsException,
    BKReadException,
    BKTimeoutException,
)
from labkit.system.model.ledger import LedgerMetadata
from labkit.worlds.sim.machine.loop import DeadlockError, SimLoop
from labkit.worlds.sim.run import outside_event_loops

T = TypeVar("T")

ERRORS: tuple[type[BKException], ...] = (
    BKNoSuchEntryException,
    BKNoSuchLedgerExistsException,
    BKTimeoutException,
    BKReadException,
    BKDigestMatchException,
    BKBookieHandleNotAvailableException,
)
"""The errors with which a bookie may respond to a read."""


_OTHERS_VERSIONS = 10
"""Another client increments the version by more than 1, so the new version cannot be guessed."""


class ScriptedCluster:
    """A cluster that stores a ledger's metadata. A subclass defines how the bookies respond.

    changes: the metadata that the learner's code has written, in order
    """

    ledger_id = 0

    def __init__(self, metadata: LedgerMetadata) -> None:
        self.metadata, self.version = metadata, 0
        self.changes: list[LedgerMetadata] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._error: BaseException | None = None

    async def read_metadata(self) -> tuple[LedgerMetadata, int]:
        return self.metadata, self.version

    async def write_metadata(self, metadata: LedgerMetadata, version: int) -> int:
        if version != self.version:
            raise BKMetadataVersionException("another client was faster")
        self.metadata, self.version = metadata, version + 1
        self.changes.append(metadata)
        return self.version

    def change_metadata(self, metadata: LedgerMetadata) -> None:
        """Store metadata, as another client would do."""
        self.metadata, self.version = metadata, self.version + _OTHERS_VERSIONS

    async def settle(self, patience_s: float = 0.01) -> None:
        """Let the learner's code run until it waits, but at most for `patience_s` seconds of
        simulated time.

        Raises any exception that the learner's code did not catch.
        """
        await asyncio.sleep(patience_s)
        self.raise_task_error()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        task.add_done_callback(self._ended)
        self._tasks.append(task)  # asyncio itself keeps only weak references to tasks.

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and self._error is None:
            self._error = task.exception()

    def raise_task_error(self) -> None:
        """If a spawned task did not catch an error, raise the first such error."""
        if self._error is not None:
            raise self._error

    def run(self, test: Coroutine[Any, Any, T]) -> T:
        """Run a test, and return its result.

        If the test never returns or exceeds its own timeout, this raises the first uncaught error
        of a spawned task. If there is none, it raises `DeadlockError` or `TimeoutError`.
        """
        try:
            # Use the simulated loop, because asyncio's own loop does not run in a browser.
            return outside_event_loops(lambda: SimLoop().run(test))
        except (DeadlockError, TimeoutError):
            self.raise_task_error()
            raise

    def problem_in(
        self, learner: Learner, play: Callable[[list[str]], Coroutine[Any, Any, None]]
    ) -> Problem | None:
        """Run a test that raises `Refused` if a line of the contract is broken, and return this
        line.

        The test appends a description of each event to the list passed to it.
        """
        log: list[str] = []

        async def run() -> Problem | None:
            with learner.recording_errors():
                try:
                    await play(log)
                except Refused as refused:
                    return refused.message, "\n".join((*log, str(refused.counterexample)))
                except Exception as error:
                    error.add_note("\n".join(log))
                    raise
            return None

        return self.run(run())


def write_set_of(metadata: LedgerMetadata, entry_id: int) -> list[str]:
    """Return the bookies of the entry's write set."""
    ensemble = metadata.ensemble_at(entry_id)
    indexes = write_set(entry_id, metadata.ensemble_size, metadata.write_quorum)
    return [ensemble[index] for index in indexes]


def shown_segments(metadata: LedgerMetadata) -> str:
    return "; ".join(
        f"from entry {each.first_entry_id} on {', '.join(each.ensemble)}"
        for each in metadata.segments
    )
