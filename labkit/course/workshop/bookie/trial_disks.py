"""Disks for the trials of single parts: disks that record every access, and disks that fail."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from labkit.course.checking.refused import Refused
from labkit.worlds.sim.crash_map.crash_map import VARIANTS
from labkit.worlds.sim.machine.disk import DiskController, SimDisk, SimDiskError, SimFile
from labkit.worlds.sim.machine.disk_operation import Operation


class RecordedAccess:
    """A disk or file that records the name of every called method in `calls`."""

    def __init__(self, wrapped: SimDisk | SimFile, calls: list[str]) -> None:
        self._wrapped, self._calls = wrapped, calls

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._wrapped, name)

        def recorded(*arguments: Any) -> Any:
            self._calls.append(name)
            result = method(*arguments)
            return RecordedAccess(result, self._calls) if isinstance(result, SimFile) else result

        return recorded


class UnopenableDisk(SimDisk):
    """A disk that cannot open any of its files."""

    def open(self, path: str) -> SimFile:
        raise SimDiskError(errno.EIO, f"{path} cannot be opened")


@contextmanager
def failing_operation(
    controller: DiskController, number: int, error: type[OSError] = SimDiskError
) -> Iterator[list[Operation]]:
    """Make the disk operation with this number fail, counting from the next operation.

    Yields a list that contains the operation once it has failed. If a sync fails with
    `SimDiskError`, the unsynced data is lost; after any other `OSError`, another sync can succeed.
    """
    numbers, failed = count(), list[Operation]()

    def watch(operation: Operation) -> None:
        if next(numbers) == number:
            failed.append(operation)
            raise error(errno.EIO, str(operation))

    controller.watch = watch
    try:
        yield failed
    finally:
        controller.watch = None


@contextmanager
def crashes_during(disk: SimDisk) -> Iterator[list[tuple[str, Operation, SimDisk]]]:
    """Before each disk operation, record what each kind of crash would leave on the disk.

    Yield a list of tuples: the kind of crash, the operation before which it occurs, and the disk
    that it leaves behind.
    """
    left = list[tuple[str, Operation, SimDisk]]()

    def watch(operation: Operation) -> None:
        left.extend((each.name, operation, disk.after_crash(each.keep)) for each in VARIANTS)

    disk.controller.watch = watch
    try:
        yield left
    finally:
        disk.controller.watch = None


@contextmanager
def unreadable_files(controller: DiskController) -> Iterator[None]:
    """Make every file read fail."""

    def fail(path: str) -> None:
        raise SimDiskError(errno.EIO, f"{path} cannot be read")

    controller.watch_read = fail
    try:
        yield
    finally:
        controller.watch_read = None


def errors_are_raised(
    rule: str, prepare: Callable[[SimDisk], Callable[[], object]], lost_on: Callable[[SimDisk], str]
) -> None:
    """Check that an action raises the error of a failing disk operation, or repairs the damage.

    prepare: a function that prepares an empty disk and returns the action
    lost_on: a function that describes the data lost in a power failure after the action, or returns
        "" if no data is lost
    """
    for number in count():
        disk = SimDisk()
        act = prepare(disk)
        with failing_operation(disk.controller, number) as failed:
            try:
                act()
            except OSError:
                if failed:
                    continue
                raise
        if not failed:
            return
        if lost := lost_on(disk):
            raise Refused(
                rule,
                f"the disk reports an error: {failed[0]}\n"
                f"your code must raise this error, but it returned; {lost}",
            )
