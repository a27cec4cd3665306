"""The progress line of a search, shown in a terminal or below a notebook cell."""

import sys
import time

_INTERVAL_S = 0.25
_LOG_INTERVAL_S = 60.0
_WIDTH = 30


class ProgressLine:
    """A progress line, rewritten in place a few times per second. A `total` of 0 means that the
    total is unknown.

    Without `in_place`, a new line is printed once a minute, which is suitable for log files.
    """

    def __init__(self, total: int = 0, what: str = "scenarios", *, in_place: bool = True) -> None:
        self._total = total
        self._interval_s = _INTERVAL_S if in_place else _LOG_INTERVAL_S
        self._begin, self._end = ("\r", "  ") if in_place else ("", "\n")
        self._what = what
        self._started_at = self._written_at = time.monotonic()

    def __call__(self, tried: int, found: int) -> None:
        now = time.monotonic()
        is_last = 0 < self._total == tried
        if now - self._written_at < self._interval_s and not is_last:
            return
        self._written_at = now
        rate = tried / (now - self._started_at)
        line = f"{tried:,} {self._what}, {rate:,.0f} per second, {found} findings"
        if self._total:
            done = _WIDTH * tried // self._total
            line = f"[{'#' * done}{'.' * (_WIDTH - done)}] {line}"
        end = "\n" if is_last else self._end
        sys.stderr.write(f"{self._begin}{line}{end}")
        sys.stderr.flush()
