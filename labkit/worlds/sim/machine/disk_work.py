"""Disk work takes time, and fails: what stands between a simulated bookie and its disks.

A call is carried out when its time is over.  A crash in between carries out only its first disk
operations: how many is a decision, `reach b1 7`, as is how much longer it takes, `disk b1 7`.
"""

import errno
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from labkit.system.model.errors import LabkitError
from labkit.worlds.sim.machine.decisions import Decisions, log_spread
from labkit.worlds.sim.machine.disk import CrashError, Fuse, SimDiskError
from labkit.worlds.sim.machine.disk_operation import Operation
from labkit.worlds.sim.machine.loop import SimLoop

T = TypeVar("T")

CALL_S = 0.0005
"""How long a call, mostly a sync, takes when nothing is wrong."""
_SLOW_MS = log_spread(1, 100)


class DiskCall(NamedTuple):
    """A call that a disk worker carried out, or that a crash cut short.

    what: the function's name, such as `flush`, `compact` or `sync`; `open` of a store that opens.
    begin_us, end_us: microseconds of the world's time.
    """

    node: str
    what: str
    begin_us: int
    end_us: int


class DiskTrouble:
    """A machine's disk faults, the operation at which it stops, and the calls of all its lives."""

    def __init__(self, stop: Callable[[], None]) -> None:
        """`stop` is called when the machine reaches the operation that it must stop at."""
        self.call_s = CALL_S
        self.extra_s = 0.0
        """How much longer each call takes."""
        self.slow_share = 0.0
        self.fails_to_sync = False
        self.fails_to_read = False
        self.is_full = False
        self.is_full_at_sync = False
        self.stop_at = -1
        """The number of the operation that is not carried out any more; -1: none."""
        self.stop = stop
        self.call_count = 0
        """Calls so far, in all lives of the machine: each decides for itself."""
        self.calls: list[DiskCall] = []
        """Those that are over."""

    def end(self) -> None:
        self.extra_s = self.slow_share = 0.0
        self.fails_to_sync = self.fails_to_read = False
        self.is_full = self.is_full_at_sync = False
        self.stop_at = -1

    def watch(self, operation: Operation) -> None:
        """Let an operation through.  Raises `SimDiskError`, or `CrashError` where all stops."""
        if operation.number == self.stop_at:
            self.stop_at = -1
            self.stop()
            raise CrashError(str(operation))
        if self.fails_to_sync and operation.kind.startswith("sync"):
            raise SimDiskError(errno.EIO, f"{operation} failed")
        if self.is_full_at_sync and operation.kind == "sync":
            raise SimDiskError(errno.ENOSPC, f"no space for what {operation} is to keep")
        if self.is_full and operation.kind in ("create", "write"):
            raise SimDiskError(errno.ENOSPC, f"no space for {operation}")

    def watch_read(self, path: str) -> None:
        """Let a read of a file through.  Raises `SimDiskError`."""
        if self.fails_to_read:
            raise SimDiskError(errno.EIO, f"read of {path} failed")


class _Call(NamedTuple):
    """A call under way: its number on this machine, and when it begins."""

    number: int
    begin: float
    run: Callable[[], Any]


class DiskWorker:
    """Runs disk work for one process, one call after the other: the port `RunBlocking`."""

    def __init__(
        self, loop: SimLoop, node: str, fuse: Fuse, trouble: DiskTrouble, decisions: Decisions
    ) -> None:
        self._loop = loop
        self._node = node
        self._fuse = fuse
        self._trouble = trouble
        self._slow = decisions.of(f"disk {node}")
        self._reach = decisions.of(f"reach {node}")
        self._free_at = 0.0
        self._under_way: deque[_Call] = deque()
        self._is_in_call = False

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]:
        """What the call returns; raises what it raises."""
        # Counted over all lives of the machine, so that a decision's name means one call alone.
        number = self._trouble.call_count
        self._trouble.call_count += 1
        slow_ms = self._slow.take(number, self._trouble.slow_share, _SLOW_MS)
        begin = max(self._loop.now, self._free_at)
        self._free_at = begin + self._trouble.call_s + self._trouble.extra_s + slow_ms / 1000
        self._under_way.append(_Call(number, begin, call))
        done = self._loop.create_future()
        self._loop.call_true(self._free_at, partial(self._carry_out, call, done))
        return done

    def crash(self) -> None:
        """Stop the machine: of the call under way only the first operations are carried out."""
        # A call that is itself stopped by one of its operations is the last one.
        if self._is_in_call or not self._under_way or self._under_way[0].begin > self._loop.now:
            return
        number, begin, call = self._under_way[0]
        self._note(call, begin)
        reach = self._reach.take(number, 0.5, lambda lot: float(int(1 + lot * 8)))
        self._fuse.stop_at = len(self._fuse.operations) + int(reach)
        # No caller is left to learn how it ended.
        with suppress(CrashError, OSError, LabkitError):
            call()

    def _carry_out(self, call: Callable[[], T], done: Any) -> None:
        self._note(call, self._under_way.popleft().begin)
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

    def _note(self, call: Callable[[], Any], begin: float) -> None:
        begin_us, end_us = round(begin * 1e6), self._loop.now_us()
        self._trouble.calls.append(DiskCall(self._node, _name(call), begin_us, end_us))


def _name(call: Callable[..., Any]) -> str:
    while isinstance(call, partial):
        if call.func is next:
            return str(call.args[0].__name__)
        call = call.func
    return "open" if isinstance(call, type) else call.__name__
