"""The clocks of the live world."""

import time


def trace_clock_us() -> int:
    """Microseconds on a clock that all processes of this machine share and that never goes back."""
    return time.monotonic_ns() // 1000


def wall_clock_ms() -> int:
    """Milliseconds since 1970, as Pulsar stamps messages and BookKeeper names journals."""
    return time.time_ns() // 1_000_000
