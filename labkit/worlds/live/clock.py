"""The clocks of the live world."""

import time


def trace_clock_us() -> int:
    """Microseconds on a clock that never goes back, the same for all processes of this machine."""
    return time.monotonic_ns() // 1000


def wall_clock_ms() -> int:
    """Milliseconds since 1970, for Pulsar's publish times and BookKeeper's journal names."""
    return time.time_ns() // 1_000_000
