"""Mistakes of what keeps a cluster, each one rule of the real code changed; `variants` gives them
their names.

The docstring of each is its rule.
"""

from collections.abc import Mapping
from typing import NoReturn

from labkit.autorecovery.copies import Ledger
from labkit.autorecovery.fragments import Underreplicated
from labkit.autorecovery.replicator import LedgerFragmentReplicator
from labkit.autorecovery.steadiness import Steadiness
from labkit.server.bookie import BookieService
from labkit.server.registration import Registration

# Autorecovery


def audit_at_once(missing: Mapping[str, float], delay_s: float, now_s: float) -> float | None:
    """A bookie is taken for lost the moment it is gone, even while it is only restarting."""
    return now_s if missing else None


class SilenceIsAnAnswer(Steadiness):
    """A list of bookies is believed as soon as a store that hung goes on."""

    def fell_silent(self) -> None:
        """It does not matter."""


class MetadataBeforeCopy(LedgerFragmentReplicator):
    """The metadata names the new bookie first, and then it gets its copies."""

    async def replicate(self, ledger: Ledger, short: Underreplicated) -> None:
        targets = await self.choose_targets(short)
        await self.publish(ledger.ledger_id, short, targets)
        await self.copy(ledger, short, targets)


# A bookie's start


class _HearsLateOfLostSessions(Registration):
    """A bookie learns of lost sessions when it serves, not before it registers: one that is lost in
    between leaves it unregistered for ever.
    """

    def listen(self) -> None:
        """Not yet."""

    async def run(self) -> NoReturn:
        """From now on."""
        super().listen()
        await super().run()


class HearsLate(BookieService):
    """Such a bookie."""

    registration_class = _HearsLateOfLostSessions
