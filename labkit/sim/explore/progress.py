"""A line with the progress of a search: on a terminal, and below a notebook's cell."""

import sys
import time

_EVERY_S = 0.25
_WIDTH = 30


class ProgressLine:
    """A progress line that is rewritten in place a few times a second.  `total` 0: unknown."""

    def __init__(self, total: int = 0, what: str = "scenarios") -> None:
        self._total = total
        self._what = what
        self._began = self._written_at = time.monotonic()

    def __call__(self, tried: int, found: int) -> None:
        """Show the number of scenarios tried, and of promises found broken."""
        now = time.monotonic()
        is_last = tried == self._total
        if now - self._written_at < _EVERY_S and not is_last:
            return
        self._written_at = now
        rate = tried / (now - self._began)
        line = f"{tried:,} {self._what}, {rate:,.0f} a second, {found} findings"
        if self._total:
            done = _WIDTH * tried // self._total
            line = f"[{'#' * done}{'.' * (_WIDTH - done)}] {line}"
        sys.stderr.write(f"\r{line}  " + ("\n" if is_last else ""))
        sys.stderr.flush()
