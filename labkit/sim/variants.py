"""Variants: the whole system with one well-known mistake, by name.

A variant replaces one real part, only for the run of a scenario that names the variant.  The new
part is the real code with one rule changed, and its docstring states that rule.  The storage's
mistakes are those of `defects`.

`labkit.sim.explore.counterexamples` has the smallest scenario known in which each variant breaks a
promise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labkit.autorecovery.daemon import Rules
from labkit.bookie.node import Bookie
from labkit.bookie.refusals import UNREADABLE
from labkit.client.bookkeeper import BookKeeper
from labkit.client.ensemble_change import EnsembleChange
from labkit.client.pending_add import PendingAdd
from labkit.client.quorum import Verdict
from labkit.client.reader import LedgerReader
from labkit.client.reads import BookieReads
from labkit.client.recovery import DeferredEnsembleChange, LedgerRecovery, RecoveryWriter
from labkit.client.writer import LedgerWriter
from labkit.model.entry import Entry
from labkit.model.errors import PROVES_ABSENCE, BKException, NoEntryException
from labkit.pulsar.broker import Broker
from labkit.server.bookie import BookieService
from labkit.sim.broker_variants import (
    ClientWithBlocks,
    GoesOnInLedger,
    GoesOnPublishing,
    MarksOfTheCursor,
    PushedIsStored,
    PushesAgainBehind,
    ReceiptOfTheNewest,
    TakesOverWithoutRecovery,
    WritesChainBlindly,
    broker_with,
)
from labkit.sim.cluster_variants import (
    HearsLate,
    MetadataBeforeCopy,
    SilenceIsAnAnswer,
    TrustsItsServer,
    audit_at_once,
)
from labkit.sim.defects import DEFECTS
from labkit.sim.script import StoreFactory
from labkit.storage.log_mark import LogMark
from labkit.storage.store import LedgerStore

# The writer


class _AckAfterOneBookie(LedgerWriter):
    """An entry counts as stored when the first bookie of its write set has it, not Qa."""

    def has_enough_acks(self, pending: PendingAdd) -> bool:
        return pending.acked != 0


class _LacOutOfOrder(LedgerWriter):
    """An entry is confirmed when Qa bookies have it, even if one before it is not."""

    def confirm(self) -> None:
        if self.ensemble_change.task is not None:
            return
        for pending in [each for each in self.pending if self.has_enough_acks(each)]:
            self.pending.remove(pending)
            if not pending.confirmed.done():
                pending.confirmed.set_result(pending.entry_id)
            if pending.entry_id > self.last_add_confirmed:
                self.last_add_confirmed = pending.entry_id
                self.length_confirmed = pending.length
            self.recorder.record("lac.advanced", self.ledger_id, pending.entry_id)


class _SegmentFromNextAdd(EnsembleChange):
    """A new ensemble begins with the next entry that will be pushed, not behind the last one that
    is confirmed: the metadata looks for those under way where they were sent first.
    """

    def first_entry_id(self) -> int:
        return self.ledger.last_add_pushed + 1


class _ChangesFromNextAdd(LedgerWriter):
    ensemble_change_class = _SegmentFromNextAdd


# Recovery


class _NoFenceOnReads(LedgerRecovery):
    """Recovery fences the ledger where it asks for LastAddConfirmed, and its reads of entries do
    not fence: a bookie that was not asked first denies an entry, and then takes it.
    """

    def fence_key_of_reads(self) -> bytes:
        return b""


class _NoFence(_NoFenceOnReads):
    """Recovery asks and reads without the FENCE flag, and the writer goes on."""

    async def fence(self) -> tuple[int, int]:
        self.master_key = b""
        return await super().fence()


class _TrustsOneBookie(LedgerRecovery):
    """The first bookie that answers decides whether an entry was stored."""

    def judge(self, answers: Sequence[Entry | BKException]) -> Verdict:
        for answer in answers:
            if isinstance(answer, Entry):
                return Verdict.FOUND
            if isinstance(answer, PROVES_ABSENCE):
                return Verdict.LOST
        return Verdict.UNKNOWN


class _PublishesEarly(DeferredEnsembleChange):
    """An ensemble change of a recovery goes into the metadata at once: the next recovery looks for
    entries where only the first one, which died, would have put them.
    """

    async def store(self, first_entry_id: int, ensemble: tuple[str, ...]) -> bool:
        is_stored = await EnsembleChange.store(self, first_entry_id, ensemble)
        self.stored = self.ledger.metadata
        return is_stored


class _EarlyWriter(RecoveryWriter):
    ensemble_change_class = _PublishesEarly


class _EarlyRecovery(LedgerRecovery):
    writer_class = _EarlyWriter


# The reader


class _HastyReads(BookieReads):
    def is_answer(self, error: BKException) -> bool:
        return True


class _UnreachableIsAnAnswer(LedgerReader):
    """A bookie that cannot be reached counts as one that has answered, when a reader asks how far
    the ledger is confirmed.
    """

    reads_class = _HastyReads


# The bookie


class _DeniesWhatItCannotRead(Bookie):
    """An entry that the bookie has and cannot read is answered with "no such entry"."""

    def read(self, ledger_id: int, entry_id: int) -> bytes:
        try:
            return super().read(ledger_id, entry_id)
        except UNREADABLE as error:
            raise NoEntryException(str(error)) from error


class _FenceInMemory(LedgerStore):
    """A fence gets no record in the journal: it is kept in memory until the next flush."""

    def fence(self, ledger_id: int, master_key: bytes) -> LogMark:
        self.handle(ledger_id, master_key).fence()
        return self.journal_of(ledger_id).synced


class _ForgetsCollected(LedgerStore):
    """The bookie takes any add to a collected ledger as the first of a new one."""

    def was_collected(self, ledger_id: int) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Variant:
    """A mistake: its name, what it does in one sentence, the promise that it breaks first and
    foremost (a check's name; "": none, it is only wasteful), and the parts that make it.  Some show
    only where brokers serve topics.
    """

    name: str
    story: str
    breaks: str = ""
    store: StoreFactory = LedgerStore
    bookie: Callable[..., Bookie] = Bookie
    service: Callable[..., BookieService] = BookieService
    broker: Callable[..., Broker] = Broker
    client: Callable[..., BookKeeper] = BookKeeper
    rules: Rules | None = None
    with_brokers: bool = False


def _client(**parts: type) -> Callable[..., BookKeeper]:
    """A client that writes, recovers or reads with these classes."""
    return type("Client", (BookKeeper,), parts)


_DURABLE = "AcknowledgedIsDurable"

_OF_THE_PROTOCOL = (
    Variant(
        "ack after one bookie",
        "an add is confirmed when one bookie has it, whatever the ack quorum",
        _DURABLE,
        client=_client(writer_class=_AckAfterOneBookie),
    ),
    Variant(
        "LAC out of order",
        "an entry is confirmed although one before it is not",
        _DURABLE,
        client=_client(writer_class=_LacOutOfOrder),
    ),
    Variant(
        "ensemble change from the wrong entry",
        "the metadata looks for unconfirmed entries in the ensemble that was replaced",
        _DURABLE,
        client=_client(writer_class=_ChangesFromNextAdd),
    ),
    Variant(
        "recovery without fencing",
        "the writer goes on while its ledger is closed under it",
        _DURABLE,
        client=_client(recovery_class=_NoFence),
    ),
    Variant(
        "no fencing on recovery reads",
        "a bookie denies an entry to recovery, then takes it (BookKeeper #2614)",
        _DURABLE,
        client=_client(recovery_class=_NoFenceOnReads),
    ),
    Variant(
        "fence not persisted",
        "a bookie forgets a fence when it restarts",
        _DURABLE,
        store=_FenceInMemory,
    ),
    Variant(
        "deleted ledger comes back",
        "a bookie takes adds to a ledger that it has collected (BookKeeper #4462)",
        "DeletedLedgerTakesNoAdd",
        store=_ForgetsCollected,
    ),
    Variant(
        "list of ledgers without a sync",
        "a bookie drops a new ledger, which its server of the metadata store does not know yet",
        "OnlyDeletedLedgersAreCollected",
        service=TrustsItsServer,
    ),
    Variant(
        "recovery trusts one bookie",
        "the first bookie that answers decides where the ledger ends",
        _DURABLE,
        client=_client(recovery_class=_TrustsOneBookie),
    ),
    Variant(
        "recovery publishes ensembles early",
        "a second recovery asks bookies that never had the entries",
        _DURABLE,
        client=_client(recovery_class=_EarlyRecovery),
    ),
    Variant(
        "could not read taken for no such entry",
        "a damaged log makes recovery end the ledger before entries that exist (BookKeeper #2908)",
        _DURABLE,
        bookie=_DeniesWhatItCannotRead,
    ),
    Variant(
        "unreachable taken for an answer",
        "a reader settles for bookies that said nothing (asked for in BookKeeper #3952)",
        "ReadersLearnWhatIsConfirmed",
        client=_client(reader_class=_UnreachableIsAnAnswer),
    ),
    Variant(
        "auditor without delay",
        "a bookie that only restarts is taken for lost, and all its ledgers are copied",
        "BriefAbsenceIsNoLoss",
        rules=Rules(when_to_audit=audit_at_once),
    ),
    Variant(
        "metadata before the copy",
        "the metadata names a bookie that has no copy yet",
        "RepairIsComplete",
        rules=Rules(replicator=MetadataBeforeCopy),
    ),
    Variant(
        "silence taken for absence",
        "the metadata store hangs, ends sessions of bookies that run, and they are taken for lost",
        "SilenceIsNoLoss",
        rules=Rules(steadiness=SilenceIsAnAnswer),
    ),
    Variant(
        "lost sessions noticed late",
        "a bookie that loses its session while it starts never registers again",
        "RunningBookiesStayRegistered",
        service=HearsLate,
    ),
)

_KEPT = "AcknowledgedMessagesAreKept"

_OF_BROKERS = (
    Variant(
        "sends after a failed one",
        "a send fails, and later ones of its producer are stored: sent again, it is a duplicate",
        _KEPT,
        broker=broker_with(ledger_class=GoesOnInLedger, publisher_class=GoesOnPublishing),
        with_brokers=True,
    ),
    Variant(
        "pushed taken for stored",
        "what is only under way is acknowledged as a duplicate",
        _KEPT,
        broker=broker_with(deduplication_class=PushedIsStored),
        with_brokers=True,
    ),
    Variant(
        "pushed again behind later ones",
        "what a failed ledger does not hold goes into the next one behind what was sent later",
        "ProducersOrderIsKept",
        broker=broker_with(ledger_class=PushesAgainBehind),
        with_brokers=True,
    ),
    Variant(
        "list of ledgers written blindly",
        "an owner who was replaced overwrites the list of ledgers of the next one",
        _KEPT,
        broker=broker_with(ledger_class=WritesChainBlindly),
        with_brokers=True,
    ),
    Variant(
        "takeover without recovery",
        "the next owner does not fence the last ledger, so the old one still writes to it",
        "OneOwnerStores",
        broker=broker_with(ledger_class=TakesOverWithoutRecovery),
        with_brokers=True,
    ),
    Variant(
        "marks not rebuilt",
        "the next owner does not look for what came after the last snapshot of the marks",
        "MessagesAreStoredOnce",
        broker=broker_with(deduplication_class=MarksOfTheCursor),
        with_brokers=True,
    ),
    Variant(
        "receipt of the newest entry",
        "the receipt of a duplicate names the topic's newest entry",
        "ReceiptsNameTheirMessages",
        broker=broker_with(publisher_class=ReceiptOfTheNewest),
        with_brokers=True,
    ),
    Variant(
        "ledger ids in blocks",
        "each client has a hundred ledger ids in stock, so a topic's ids go back with its owner",
        "MessageIdsGrow",
        client=ClientWithBlocks,
        with_brokers=True,
    ),
)

_COPY = "EveryCopyIsDurable"
_OF_STORAGE = {
    "journals removed before the mark": "EveryErrorIsExpected",
    "fence not flushed": "FencedBookieRefusesTheWriter",
    "replay keeps the mark": "",
}
"""Promises of the storage's mistakes, where it is not that every copy stays; "": none is broken."""

VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant("", "the real thing"),
        *_OF_THE_PROTOCOL,
        *_OF_BROKERS,
        *(
            Variant(
                each.name, each.story, _OF_STORAGE.get(each.name, _COPY), store=each.store_factory
            )
            for each in DEFECTS.values()
        ),
    )
}
"""The mistakes by name; "" is none."""
