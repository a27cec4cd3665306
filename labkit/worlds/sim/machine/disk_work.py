"""Makes the disk calls of a simulated bookie take time, and sometimes fail.

A call takes effect at the end of its duration. If the machine crashes before that, only the first
few disk operations of the call are carried out. The decision `reach b1 7` determines the number of
these operations, and `disk b1 7` determines how much longer than usual the call takes.
"""

import errno
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from labkit.system.model.errors import LabkitError
from labkit.worlds.sim.machine.decisions import Decisions, log_spread
from labkit.worlds.sim.machine.disk import CrashError, DiskController, SimDiskError
from labkit.worlds.sim.machine.disk_operation import Operation
from labkit.worlds.sim.machine.loop import SimLoop

T = TypeVar("T")

CALL_S = 0.0005
"""How long a call (usually a sync) normally takes."""
_SLOW_MS = log_spread(1, 100)


class DiskCall(NamedTuple):
    """A call that a disk worker completed, or that a crash cut short.

    what: the function's name, such as `flush`, `compact` or `sync`, or `open` when a store is
        opened.
    begin_us, end_us: the start and the end of the call, in microseconds of virtual time.
    """

    node: str
    what: str
    begin_us: int
    end_us: int


class DiskFaults:
    """A machine's disk faults, the operations before which the machine stops, and its finished disk
    calls.
    """

    def __init__(self) -> None:
        self.call_s = CALL_S
        self.extra_s = 0.0
        """How much longer than usual each call takes."""
        self.slow_share = 0.0
        self.fails_to_sync = False
        self.fails_to_read = False
        self.is_full = False
        self.is_full_at_sync = False
        self.stops: dict[int, Callable[[], None]] = {}
        """Functions that stop the machine, keyed by the number of the operation before which it
        stops.
        """
        self.call_count = 0
        """The number of calls so far, including the calls before a restart. Each call has its own
        decisions.
        """
        self.calls: list[DiskCall] = []
        """The finished calls."""

    def end(self) -> None:
        self.extra_s = self.slow_share = 0.0
        self.fails_to_sync = self.fails_to_read = False
        self.is_full = self.is_full_at_sync = False
        self.stops.clear()

    def watch(self, operation: Operation) -> None:
        """Raise `SimDiskError` if the operation fails, or `CrashError` if the machine stops."""
        if (stop := self.stops.pop(operation.number, None)) is not None:
            stop()
            raise CrashError(str(operation))
        if self.fails_to_sync and operation.kind.startswith("sync"):
            raise SimDiskError(errno.EIO, f"{operation} failed")
        if self.is_full_at_sync and operation.kind == "sync":
            raise SimDiskError(errno.ENOSPC, f"no space left for the data of {operation}")
        if self.is_full and operation.kind in ("create", "write"):
            raise SimDiskError(errno.ENOSPC, f"no space left for {operation}")

    def watch_read(self, path: str) -> None:
        if self.fails_to_read:
            raise SimDiskError(errno.EIO, f"read of {path} failed")


class _Call(NamedTuple):
    number: int
    begin: float
    run: Callable[[], Any]


class DiskWorker:
    """Runs the disk calls of one thread, one after another. Implements the port `RunInThread`."""

    def __init__(
        self,
        loop: SimLoop,
        node: str,
        controller: DiskController,
        faults: DiskFaults,
        decisions: Decisions,
    ) -> None:
        self._loop = loop
        self._node = node
        self._controller = controller
        self._faults = faults
        self._slow = decisions.of(f"disk {node}")
        self._reach = decisions.of(f"reach {node}")
        self._free_at = 0.0
        self._pending: deque[_Call] = deque()
        self._is_in_call = False

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]:
        # Keep counting when the machine restarts, so that a decision's name identifies a single
        # call.
        number = self._faults.call_count
        self._faults.call_count += 1
        slow_ms = self._slow.value_of(number, self._faults.slow_share, _SLOW_MS)
        begin = max(self._loop.now, self._free_at)
        self._free_at = begin + self._faults.call_s + self._faults.extra_s + slow_ms / 1000
        self._pending.append(_Call(number, begin, call))
        done = self._loop.create_future()
        self._loop.call_at_world_time(self._free_at, partial(self._carry_out, call, done))
        return done

    def crash(self) -> None:
        """Carry out the first few operations of the call in progress, if there is one. Although the
        process is already dead, these operations are treated as if they had happened before the
        crash.
        """
        # If an operation of the current call caused the crash, the call has already stopped at this
        # operation. The machine's other workers still carry out a part of their calls.
        if self._is_in_call or not self._pending or self._pending[0].begin > self._loop.now:
            return
        number, begin, call = self._pending[0]
        self._record(call, begin)
        reach = self._reach.value_of(number, 0.5, lambda draw: float(int(1 + draw * 8)))
        self._controller.stop_at = len(self._controller.operations) + int(reach)
        # The caller no longer exists, so ignore the result.
        with suppress(CrashError, OSError, LabkitError):
            call()

    def _carry_out(self, call: Callable[[], T], done: Any) -> None:
        self._record(call, self._pending.popleft().begin)
        try:
            self._is_in_call = True
            result = call()
        except CrashError:
            return
        except Exception as error:  # noqa: BLE001 - the caller gets it
            if not done.done():
                done.set_exception(error)
        else:
            if not done.done():
                done.set_result(result)
        finally:
            self._is_in_call = False

    def _record(self, call: Callable[[], Any], begin: float) -> None:
        begin_us, end_us = round(begin * 1e6), self._loop.now_us()
        self._faults.calls.append(DiskCall(self._node, _name(call), begin_us, end_us))


def _name(call: Callable[..., Any]) -> str:
    while isinstance(call, partial):
        if call.func is next:
            return str(call.args[0].__name__)
        call = call.func
    return "open" if isinstance(call, type) else call.__name__
