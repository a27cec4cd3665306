"""Where autorecovery keeps its nodes, below the root of a cluster's ledgers.

    underreplication/
      LAYOUT
      ledgers/0000/0000/0000/0007/urL0000000007   ledger 7 is short of copies: the mark
      locks/urL0000000007                         ephemeral: the lock of the worker that repairs it
      disable                                     while it exists, nothing audits or repairs
      lostBookieRecoveryDelay                     seconds, decimal
      checkallledgersctime, replicascheckctime, placementpolicycheckctime
                                                  when these checks ended last
      auditorelection                             who is auditor

In BookKeeper: `meta/ZkLedgerUnderreplicationManager.java`.
"""

from labkit.system.metadata.place import MetadataPlace


class AutoRecoveryNodes:
    """The paths of one cluster's nodes."""

    def __init__(self, place: MetadataPlace) -> None:
        self.root = root = f"{place.ledgers_root}/underreplication"
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
        """The node that marks a ledger: below the four groups of its id's 16 hexadecimal digits."""
        digits = f"{ledger_id:016x}"
        groups = (digits[at : at + 4] for at in range(0, 16, 4))
        return f"{self.ledgers}/{'/'.join(groups)}/{_name(ledger_id)}"

    def lock(self, ledger_id: int) -> str:
        """The node of the worker that repairs a ledger."""
        return f"{self.locks}/{_name(ledger_id)}"


def _name(ledger_id: int) -> str:
    return f"urL{ledger_id:010d}"
