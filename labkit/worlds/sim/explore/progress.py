"""A line with the progress of a search: on a terminal, and below a notebook's cell."""

import sys
import time

_EVERY_S = 0.25
_IN_A_LOG_EVERY_S = 60.0
_WIDTH = 30


class ProgressLine:
    """A progress line that is rewritten in place a few times a second.  `total` 0: unknown.

    With `in_place` off each line stays, and there is one a minute: for a log.
    """

    def __init__(self, total: int = 0, what: str = "scenarios", *, in_place: bool = True) -> None:
        self._total = total
        self._every_s = _EVERY_S if in_place else _IN_A_LOG_EVERY_S
        self._begin, self._end = ("\r", "  ") if in_place else ("", "\n")
        self._what = what
        self._began = self._written_at = time.monotonic()

    def __call__(self, tried: int, found: int) -> None:
        """Show the number of scenarios tried, and of promises found broken."""
        now = time.monotonic()
        is_last = 0 < self._total == tried
        if now - self._written_at < self._every_s and not is_last:
            return
        self._written_at = now
        rate = tried / (now - self._began)
        line = f"{tried:,} {self._what}, {rate:,.0f} a second, {found} findings"
        if self._total:
            done = _WIDTH * tried // self._total
            line = f"[{'#' * done}{'.' * (_WIDTH - done)}] {line}"
        end = "\n" if is_last else self._end
        sys.stderr.write(f"{self._begin}{line}{end}")
        sys.stderr.flush()
