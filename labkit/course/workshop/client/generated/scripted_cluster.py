"""Defines the base class of the clusters on which a test runs the learner's writer, reader or
recovery.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from labkit.course.checking.generated_cases import Draw
from labkit.course.checking.refused import Refused
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
from labkit.system.model.ledger import LedgerMetadata, LedgerState
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

    def run_logged(
        self, learner: Learner, test: Callable[[list[str]], Coroutine[Any, Any, None]]
    ) -> None:
        """Run a test that appends a description of each event to the list passed to it. If the test
        raises an exception, add the descriptions to the exception.
        """
        log: list[str] = []

        async def run() -> None:
            with learner.recording_errors():
                try:
                    await test(log)
                except Refused as refused:
                    how = "\n".join((*log, str(refused.counterexample)))
                    raise Refused(refused.message, how) from None
                except Exception as error:
                    error.add_note("\n".join(log))
                    raise

        self.run(run())


def draw_sizes(draw: Draw) -> tuple[int, int, int]:
    """Return an ensemble size of at most 5, a write quorum and an ack quorum."""
    size = draw.number(1, 5)
    write_quorum = draw.number(1, size)
    return size, write_quorum, draw.number(1, write_quorum)


def write_set_of(metadata: LedgerMetadata, entry_id: int) -> list[str]:
    """Return the bookies of the entry's write set."""
    ensemble = metadata.ensemble_at(entry_id)
    indexes = write_set(entry_id, metadata.ensemble_size, metadata.write_quorum)
    return [ensemble[index] for index in indexes]


def shown_sizes(metadata: LedgerMetadata) -> str:
    return f"E={metadata.ensemble_size}, Qw={metadata.write_quorum}, Qa={metadata.ack_quorum}"


def shown_new_ledger(metadata: LedgerMetadata) -> str:
    return f"{shown_sizes(metadata)} on {', '.join(metadata.segments[0].ensemble)}"


def shown_state(metadata: LedgerMetadata) -> str:
    is_closed = metadata.state is LedgerState.CLOSED
    return f"{metadata.state.name}{f' at entry {metadata.last_entry_id}' * is_closed}"


def shown_segments(metadata: LedgerMetadata) -> str:
    return "; ".join(
        f"from entry {each.first_entry_id} on {', '.join(each.ensemble)}"
        for each in metadata.segments
    )
