"""The paths of autorecovery's nodes, below the root of a cluster's ledgers.

    underreplication/
      LAYOUT
      ledgers/0000/0000/0000/001a/urL0000000026   the mark of ledger 26; the directories are in
                                                  hexadecimal, the name is in decimal
      locks/urL0000000026                         ephemeral: held by a worker that repairs the
                                                  ledger, or by a bookie that deletes its copies
      disable                                     while it exists, no audit or repair begins
      lostBookieRecoveryDelay                     the delay in seconds, as a decimal number
      checkallledgersctime, replicascheckctime, placementpolicycheckctime
                                                  when each check was last completed
      auditorelection                             votes for auditor

In BookKeeper: `meta/ZkLedgerUnderreplicationManager.java`.
"""

import re

from labkit.system.metadata.location import MetadataLocation

_NAME = re.compile(r"urL(\d{10,19})")
"""The name of a mark or a lock."""


class AutoRecoveryPaths:
    def __init__(self, location: MetadataLocation) -> None:
        self.root = root = f"{location.ledgers_root}/underreplication"
        self.layout = f"{root}/LAYOUT"
        self.ledgers = f"{root}/ledgers"
        self.locks = f"{root}/locks"
        self.disable = f"{root}/disable"
        self.lost_bookie_recovery_delay = f"{root}/lostBookieRecoveryDelay"
        self.ledgers_checked = f"{root}/checkallledgersctime"
        self.replicas_checked = f"{root}/replicascheckctime"
        self.placement_checked = f"{root}/placementpolicycheckctime"
        self.election = f"{root}/auditorelection"

    def mark(self, ledger_id: int) -> str:
        digits = f"{ledger_id:016x}"
        groups = (digits[at : at + 4] for at in range(0, 16, 4))
        return f"{self.ledgers}/{'/'.join(groups)}/{_name(ledger_id)}"

    def ledger_of(self, mark: str) -> int | None:
        """Return the ledger that this node marks, or None if the node is not a mark."""
        match = _NAME.fullmatch(mark.rpartition("/")[2])
        return int(match[1]) if match and self.mark(int(match[1])) == mark else None

    def lock(self, ledger_id: int) -> str:
        return f"{self.locks}/{_name(ledger_id)}"


def _name(ledger_id: int) -> str:
    return f"urL{ledger_id:010d}"
