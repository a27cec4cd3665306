"""One input through one decoder, and what may not happen there.

A decoder gives a value or an error of labkit's own.  It comes to an end, and it takes no more
memory than the input's size and a constant, whatever lengths the input pretends to have.
"""

import random
import signal
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from traceback import extract_tb
from types import FrameType

from labkit.system.model.errors import LabkitError
from tests.fuzz.mutate import make_input

LIMIT_S = 10.0
ALLOWANCE_BYTES = 4 * 1024 * 1024
"""Read buffers, and Python's objects for inputs of 64 KiB at most."""
SHRINKING_S = 5.0


@dataclass(frozen=True, slots=True)
class Target:
    """A decoder and inputs that it understands.

    A decoder that gives its values one by one is drained.  `refusals` are the errors with which it
    may say that the bytes are wrong.
    """

    name: str
    decode: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    refusals: tuple[type[Exception], ...] = (LabkitError,)


@dataclass(frozen=True, slots=True)
class Finding:
    """What went wrong.  Two findings of one `kind` have the same cause."""

    kind: str
    story: str


@dataclass(frozen=True, slots=True)
class Case:
    """A target's input, known by its number."""

    target: Target
    number: int

    def data(self) -> bytes:
        """The input; always the same."""
        return make_input(random.Random(f"{self.target.name} {self.number}"), self.target.seeds)


class TookTooLong(BaseException):
    """Not an Exception, so that no decoder takes it for one of its errors."""


def try_input(target: Target, data: bytes, limit_s: float = LIMIT_S) -> Finding | None:
    """Decode it; None when all is as it must be."""
    started_here = not tracemalloc.is_tracing()
    if started_here:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        finding = _decode(target, data, limit_s)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        if started_here:
            tracemalloc.stop()
    if finding is None and peak - before > len(data) + ALLOWANCE_BYTES:
        taken = f"{peak - before} bytes of memory for an input of {len(data)} bytes"
        return Finding("memory", taken)
    return finding


def _decode(target: Target, data: bytes, limit_s: float) -> Finding | None:
    try:
        with _time_limit(limit_s):
            value = target.decode(data)
            if isinstance(value, Iterator):
                deque(value, maxlen=0)
    except target.refusals as error:
        if str(error):
            return None
        return Finding("silent error", f"{type(error).__name__} says nothing")
    except TookTooLong:
        return Finding("hang", f"no end within {limit_s:g} s")
    except MemoryError as error:
        return Finding("memory", f"MemoryError: {error}")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        place = extract_tb(error.__traceback__)[-1]
        where = f"{place.filename.rpartition('/')[2]}:{place.name}"
        kind = f"{type(error).__module__}.{type(error).__qualname__} in {where}"
        return Finding(kind, f"{kind}, line {place.lineno}: {error}")
    return None


@contextmanager
def _time_limit(limit_s: float) -> Iterator[None]:
    def stop(_: int, __: FrameType | None) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def shrink(target: Target, data: bytes, finding: Finding, limit_s: float = LIMIT_S) -> bytes:
    """A smaller input, with more zeros, that leads to the same kind of finding."""
    deadline = time.monotonic() + SHRINKING_S

    def is_as_bad(smaller: bytes) -> bool:
        found = try_input(target, smaller, limit_s)
        return found is not None and found.kind == finding.kind

    size = len(data) // 2
    while size and time.monotonic() < deadline:
        for smaller in _smaller(data, size):
            if time.monotonic() > deadline:
                break
            if smaller != data and is_as_bad(smaller):
                data = smaller
                break
        else:
            size //= 2
    return data


def _smaller(data: bytes, size: int) -> Iterable[bytes]:
    for at in range(0, len(data), size):
        yield data[:at] + data[at + size :]
    for at in range(0, len(data), size):
        yield data[:at] + bytes(len(data[at : at + size])) + data[at + size :]
