"""Run one decoder on one input and check that it obeys the rules for decoders.

A decoder must return a value or raise one of labkit's errors. The decoder must terminate, and must
not use more memory than the size of the input plus a constant, no matter which lengths the input
claims.
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
"""Room for read buffers and for the Python objects of inputs up to 64 KiB."""
SHRINKING_S = 5.0


@dataclass(frozen=True, slots=True)
class Target:
    """A decoder with valid sample inputs.

    If the decoder returns an iterator, the iterator is exhausted. `refusals` are the exceptions
    with which the decoder may reject its input.
    """

    name: str
    decode: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    refusals: tuple[type[Exception], ...] = (LabkitError,)


@dataclass(frozen=True, slots=True)
class Finding:
    """A failure. Findings with the same `kind` have the same cause."""

    kind: str
    story: str


@dataclass(frozen=True, slots=True)
class Case:
    """An input of a target, which is identified by its number."""

    target: Target
    number: int

    def data(self) -> bytes:
        """Return the input, which depends only on the target and the number."""
        return make_input(random.Random(f"{self.target.name} {self.number}"), self.target.seeds)


class TookTooLong(BaseException):
    """Derives from `BaseException`, so that a decoder that catches its own errors does not catch
    this one.
    """


def try_input(target: Target, data: bytes, limit_s: float = LIMIT_S) -> Finding | None:
    """Decode the input. Return a finding, or None if the decoder obeys the rules."""
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
    """Return a smaller or simpler input that leads to the same kind of finding."""
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
