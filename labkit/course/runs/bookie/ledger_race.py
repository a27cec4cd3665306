"""A race in which a bookie asks which of its ledgers still exist while a client creates a
ledger.
"""

from labkit.course.runs.bookie.one_bookie import OneBookie
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import BookieException
from labkit.worlds.sim.settings.bookie_script import entry_bytes

LIVING, DELETED, NEW = 5, 6, 7


class LedgerRace:
    """A bookie, its metadata store, and a client that creates a ledger at a chosen moment."""

    def __init__(self, created_at: int, added_at: int, answers: bool = True) -> None:
        """Set the moments at which the ledger is created and its entry is added. A moment is given
        as the number of queries that the learner's function has made by then: 0 means before the
        first query, and 2 means after the second query.
        """
        self.story: list[str] = []
        self._moments = created_at, added_at
        self._answers = answers
        self._asked = 0
        self._existing = {LIVING}
        self._bookie = OneBookie()
        self._acked: list[int] = []
        for ledger_id in (LIVING, DELETED):
            self._add(ledger_id)
        self._bookie.flush()

    def list_stored(self) -> list[int]:
        """Return the bookie's ledgers. This is one of the two queries that the learner's function
        can make.
        """
        self._let_happen()
        self._asked += 1
        stored = self.stored
        self.story.append(f"list_stored() says {stored}")
        return stored

    def ask_existing(self) -> set[int]:
        """Return the ledgers in the metadata store. This is one of the two queries that the
        learner's function can make.
        """
        self._let_happen()
        self._asked += 1
        if not self._answers:
            self.story.append("ask_existing() raises MetadataUnavailableError")
            raise MetadataUnavailableError("the metadata store is not responding")
        self.story.append(f"ask_existing() says {sorted(self._existing)}")
        return set(self._existing)

    def drop(self, dropped: list[int]) -> list[int]:
        """Let the remaining events happen, then collect garbage, and return the lost ledgers.

        A ledger is lost if its entry was acknowledged and the bookie no longer has it.
        """
        self._let_happen(to_the_end=True)
        self.story.append(f"yours drops {dropped}")
        garbage = self._bookie.store.garbage
        for log_id in garbage.collect(dropped):
            garbage.remove_log(log_id)
        return [ledger_id for ledger_id in self._acked if not self._is_readable(ledger_id)]

    @property
    def stored(self) -> list[int]:
        return self._bookie.store.ledger_ids()

    def _let_happen(self, to_the_end: bool = False) -> None:
        created_at, added_at = self._moments
        if NEW not in self._existing and (to_the_end or created_at <= self._asked):
            self._existing.add(NEW)
            self.story.append(f"a client creates ledger {NEW}: it is in the metadata")
        if NEW not in self._acked and (to_the_end or added_at <= self._asked):
            self._add(NEW)
            self.story.append("its entry 0 reaches the bookie and is acknowledged")

    def _add(self, ledger_id: int) -> None:
        self._bookie.add((ledger_id, 0))
        self._bookie.commit()
        if ledger_id != DELETED:
            self._acked.append(ledger_id)

    def _is_readable(self, ledger_id: int) -> bool:
        try:
            return self._bookie.read(ledger_id, 0) == entry_bytes(ledger_id, 0, 20)
        except BookieException:
            return False
