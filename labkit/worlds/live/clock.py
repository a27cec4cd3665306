"""The clocks of the live world."""

import time


def trace_clock_us() -> int:
    """Return microseconds on a monotonic clock that all processes on this machine share."""
    return time.monotonic_ns() // 1000


def wall_clock_ms() -> int:
    """Return Unix time in milliseconds, for Pulsar's publish times and BookKeeper's journal ids."""
    return time.time_ns() // 1_000_000
