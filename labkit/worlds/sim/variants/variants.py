"""Variants: the whole system with one well-known mistake, by name.

A variant replaces one real part, only for the run of a scenario that names the variant.  The new
part is the real code with one rule changed, and its docstring states that rule.  The storage's
mistakes are those of `storage_variants`.

`labkit.worlds.sim.explore.counterexamples` has the smallest scenario known in which each variant
breaks a promise.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from labkit.system.autorecovery.daemon import Rules
from labkit.system.bookie.node import Bookie
from labkit.system.bookie.refusals import UNREADABLE
from labkit.system.broker.broker import Broker
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.cookie import check_cookie
from labkit.system.model.errors import NoEntryException
from labkit.system.node.bookie import BookieService
from labkit.system.storage.log_mark import LogMark
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim.settings.bookie_script import StoreFactory
from labkit.worlds.sim.variants.broker_variants import (
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
from labkit.worlds.sim.variants.client_variants import (
    AckAfterOneBookie,
    ChangesFromNextAdd,
    CountsEveryAck,
    EarlyRecovery,
    LacOutOfOrder,
    NoFence,
    NoFenceOnReads,
    TrustsOneBookie,
    UnreachableIsAnAnswer,
)
from labkit.worlds.sim.variants.cluster_variants import (
    HearsLate,
    MetadataBeforeCopy,
    SilenceIsAnAnswer,
    TrustsItsServer,
    audit_at_once,
    start_on_any_disks,
)
from labkit.worlds.sim.variants.storage_variants import DEFECTS

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
    check_cookie: Callable[..., Awaitable[None]] = check_cookie
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
        client=_client(writer_class=AckAfterOneBookie),
    ),
    Variant(
        "LAC out of order",
        "an entry is confirmed although one before it is not",
        _DURABLE,
        client=_client(writer_class=LacOutOfOrder),
    ),
    Variant(
        "ensemble change from the wrong entry",
        "the metadata looks for unconfirmed entries in the ensemble that was replaced",
        _DURABLE,
        client=_client(writer_class=ChangesFromNextAdd),
    ),
    Variant(
        "recovery without fencing",
        "the writer goes on while its ledger is closed under it",
        _DURABLE,
        client=_client(recovery_class=NoFence),
    ),
    Variant(
        "no fencing on recovery reads",
        "a bookie denies an entry to recovery, then takes it (BookKeeper #2614)",
        _DURABLE,
        client=_client(recovery_class=NoFenceOnReads),
    ),
    Variant(
        "fence not persisted",
        "a bookie forgets a fence when it restarts, and the writer counts its acknowledgements",
        _DURABLE,
        store=_FenceInMemory,
        # Otherwise the writer would notice, and nothing would be lost.
        client=_client(writer_class=CountsEveryAck),
    ),
    Variant(
        "acks of emptied bookies counted",
        "a writer counts acknowledgements of bookies that were emptied and came back, and so have"
        " forgotten a fence (BookKeeper #4812)",
        "OneWriter",
        client=_client(writer_class=CountsEveryAck),
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
        client=_client(recovery_class=TrustsOneBookie),
    ),
    Variant(
        "recovery publishes ensembles early",
        "a second recovery asks bookies that never had the entries",
        _DURABLE,
        client=_client(recovery_class=EarlyRecovery),
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
        client=_client(reader_class=UnreachableIsAnAnswer),
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
        rules=Rules(metadata_silence=SilenceIsAnAnswer),
    ),
    Variant(
        "lost sessions noticed late",
        "a bookie that loses its session while it starts never registers again",
        "RunningBookiesStayRegistered",
        service=HearsLate,
    ),
    Variant(
        "cookie not checked",
        "a bookie starts on disks that were replaced, and denies what it had acknowledged",
        _DURABLE,
        check_cookie=start_on_any_disks,
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
