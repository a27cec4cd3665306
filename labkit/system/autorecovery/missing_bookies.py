"""The registered bookies that are missing, and since when.

    registered --- goes ---> missing --- comes back ---> registered
                                |
                                +------- audited ------> lost: no longer known

An absence is counted from the end of the metadata store's last silence, because the store may have
expired the sessions of running bookies (`metadata_silence`).
"""

from collections.abc import Collection, Iterable

from labkit.system.autorecovery.metadata_silence import MetadataSilence


class MissingBookies:
    """Follows the list of registered bookies for one auditor.

    Times are those of the event loop, in seconds.
    """

    def __init__(self, silence: MetadataSilence) -> None:
        self.known: dict[str, None] = {}
        """The bookies that are registered, or are missing and do not yet count as lost."""
        self.since: dict[str, float] = {}
        """The missing ones, and since when."""
        self._silence = silence
        self._silence_count = silence.count
        """How many silences of the metadata store were taken into account."""
        self._not_before = 0.0
        """Bookies that were missing when the auditor began have until then to come back."""
        self._came_back: dict[str, None] = {}
        """Bookies that have registered again since the last silence."""

    def begin(
        self, expected: Iterable[str], alive: Collection[str], now: float, *, had_another: bool
    ) -> None:
        """Count expected bookies that are not registered as missing from now on.

        They, and the bookies that are about to go, may have lost their sessions with another
        auditor, and be about to register again.
        """
        self.known = dict.fromkeys(expected)
        if had_another:
            self._not_before = self._silence.began_at + self._silence.grace_s
        if any(bookie not in alive for bookie in self.known):
            self._not_before = now + self._silence.grace_s

    def update(self, alive: Collection[str], now: float) -> None:
        """Update from the list of registered bookies.

        If a bookie comes back after a silence, the others get the full grace period again.  Each
        bookie causes this only once, so the wait ends.
        """
        is_back = [b for b in self.since if b in alive and b not in self._came_back]
        if not self.is_up_to_date:
            self._silence_count = self._silence.count
            self.since = dict.fromkeys(self.since, self._silence.answers_since)
            self._came_back.clear()
        if is_back and not self._silence.is_settled:
            self._came_back.update(dict.fromkeys(is_back))
            self._silence.begin_grace_period()
        self.known.update(dict.fromkeys(alive))
        gone = [bookie for bookie in self.known if bookie not in alive]
        self.since = {bookie: self.since.get(bookie, now) for bookie in gone}

    @property
    def is_up_to_date(self) -> bool:
        """Whether the metadata store has not fallen silent since the last `update`."""
        return self._silence_count == self._silence.count

    @property
    def settled_at(self) -> float:
        """The earliest time at which missing bookies may count as lost."""
        return max(self._not_before, self._silence.settled_at)

    def audited(self, gone_meanwhile: Iterable[str], now: float) -> None:
        """Forget the missing bookies, whose ledgers are now marked, and start counting those that
        left during the audit.
        """
        for bookie in self.since:
            del self.known[bookie]
        self.since = dict.fromkeys(gone_meanwhile, now)
