"""Tracks which bookies are missing and since when.

    registered --- leaves ---> missing --- comes back ---> registered
                                  |
                                  +------ audited ------> lost: no longer tracked

Absences are measured from the end of the last silence of the metadata store, because the store may
have expired the sessions of running bookies during the silence (`metadata_silence`).
"""

from collections.abc import Collection, Iterable

from labkit.system.autorecovery.metadata_silence import MetadataSilence


class MissingBookies:
    """The missing bookies, as seen by one auditor. All times are in event loop time."""

    def __init__(self, silence: MetadataSilence) -> None:
        self.tracked: dict[str, None] = {}
        """Bookies that are registered, or missing but not lost yet."""
        self.since: dict[str, float] = {}
        """The time from which each missing bookie's absence is measured."""
        self._silence = silence
        self._silence_count = silence.count
        """The number of silences at the time of the last `update`."""
        self._earliest_loss = 0.0
        """No bookie counts as lost before this time."""
        self._came_back: dict[str, None] = {}
        """Bookies that have re-registered since the last silence."""

    def begin(
        self, expected: Iterable[str], alive: Collection[str], now: float, *, had_another: bool
    ) -> None:
        """Start tracking the expected bookies. Those that are not registered count as missing from
        now on.

        If any are missing, a grace period starts now, and no bookie counts as lost until it ends.
        If the cluster had an earlier auditor, there is also a grace period that starts with the
        auditor's metadata session: bookies may have lost their sessions at the same time as the
        earlier auditor, and may be about to re-register.
        """
        self.tracked = dict.fromkeys(expected)
        if had_another:
            self._earliest_loss = self._silence.session_began_at + self._silence.grace_s
        if any(bookie not in alive for bookie in self.tracked):
            self._earliest_loss = max(self._earliest_loss, now + self._silence.grace_s)

    def update(self, alive: Collection[str], now: float) -> None:
        """Compare the tracked bookies with the registered ones.

        If a bookie re-registers during the grace period, the period starts again, but only once per
        bookie and silence.
        """
        if self.was_silent:
            self._silence_count = self._silence.count
            self.since = dict.fromkeys(self.since, self._silence.responding_since)
            self._came_back.clear()
        returned = [b for b in self.since if b in alive and b not in self._came_back]
        if returned and not self._silence.is_settled:
            self._came_back.update(dict.fromkeys(returned))
            self._silence.begin_grace_period()
        self.tracked.update(dict.fromkeys(alive))
        missing = [bookie for bookie in self.tracked if bookie not in alive]
        self.since = {bookie: self.since.get(bookie, now) for bookie in missing}

    @property
    def was_silent(self) -> bool:
        """Whether the metadata store has been silent since the last `update`."""
        return self._silence_count != self._silence.count

    @property
    def settled_at(self) -> float:
        """The earliest time at which missing bookies may count as lost."""
        return max(self._earliest_loss, self._silence.settled_at)

    def forget_lost(self, registered: Collection[str], now: float) -> None:
        """Stop tracking the bookies that were missing before the audit and did not return during
        it. From now on, those that left during the audit count as missing.
        """
        for bookie in self.since:
            if bookie not in registered:
                del self.tracked[bookie]
        self.since = {bookie: now for bookie in self.tracked if bookie not in registered}
