"""Variants of the whole system, by name, each with one well-known bug.

A variant replaces one real component, but only in runs of scenarios that select the variant. The
replacement is the real component with one rule changed, and its docstring describes the change. The
storage bugs are imported from `storage_variants`.

`labkit.worlds.sim.explore.counterexamples` contains the smallest known scenario in which each
variant breaks a promise.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from labkit.system.autorecovery.daemon import Rules
from labkit.system.bookie.error_codes import STORAGE_ERRORS
from labkit.system.bookie.node import Bookie
from labkit.system.broker.broker import Broker
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.cookie import check_cookie
from labkit.system.model.errors import NoEntryException
from labkit.system.node.bookie import BookieService
from labkit.system.storage.log_mark import LogMark
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim.settings.bookie_script import StoreFactory
from labkit.worlds.sim.variants import broker_variants, client_variants, cluster_variants
from labkit.worlds.sim.variants.storage_variants import DEFECTS

# The bookie


class _DeniesUnreadableEntries(Bookie):
    """A bookie that returns "no such entry" for an entry that it has but cannot read."""

    def read(self, ledger_id: int, entry_id: int) -> bytes:
        try:
            return super().read(ledger_id, entry_id)
        except STORAGE_ERRORS as error:
            raise NoEntryException(str(error)) from error


class _FenceInMemory(LedgerStore):
    """A fence is not written to the journal, but only kept in memory until the next flush."""

    def fence(self, ledger_id: int, master_key: bytes) -> LogMark:
        self.ledger_with_key(ledger_id, master_key).fence()
        return self.journal_of(ledger_id).synced


class _ForgetsCollectedLedgers(LedgerStore):
    """An add to a garbage-collected ledger is treated as the first add to a new ledger."""

    def was_collected(self, ledger_id: int) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Variant:
    """A bug, with its name, a one-sentence description, and the components that contain it.

    `breaks` is the name of the check for the main promise that the bug breaks, or "" if the bug
    breaks no promise and only wastes resources. Some bugs have an effect only if brokers serve
    topics.
    """

    name: str
    description: str
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
    return type("Client", (BookKeeper,), parts)


_DURABLE = "AcknowledgedIsDurable"

_PROTOCOL_VARIANTS = (
    Variant(
        "ack after one bookie",
        "an add is confirmed when one bookie has it, regardless of the ack quorum",
        _DURABLE,
        client=_client(writer_class=client_variants.AckAfterOneBookie),
    ),
    Variant(
        "LAC out of order",
        "an entry is confirmed although an earlier one is not",
        _DURABLE,
        client=_client(writer_class=client_variants.LacOutOfOrder),
    ),
    Variant(
        "ensemble change from the wrong entry",
        "for unconfirmed entries, the metadata still refers to the replaced ensemble",
        _DURABLE,
        client=_client(writer_class=client_variants.ChangesFromNextAdd),
    ),
    Variant(
        "recovery without fencing",
        "the writer keeps writing while recovery closes its ledger",
        _DURABLE,
        client=_client(recovery_class=client_variants.NoFence),
    ),
    Variant(
        "no fencing on recovery reads",
        "a bookie denies an entry to recovery, then accepts it (BookKeeper #2614)",
        _DURABLE,
        client=_client(recovery_class=client_variants.NoFenceOnReads),
    ),
    Variant(
        "fence not persisted",
        "a bookie forgets a fence when it restarts, and the writer counts its acknowledgements",
        _DURABLE,
        store=_FenceInMemory,
        # Replace the writer as well, because the correct writer would notice the restart, and
        # nothing would be lost.
        client=_client(writer_class=client_variants.CountsEveryAck),
    ),
    Variant(
        "acks of emptied bookies counted",
        "a writer counts acknowledgements from bookies that have lost their data, and with it a"
        " fence (BookKeeper #4812)",
        "OneWriter",
        client=_client(writer_class=client_variants.CountsEveryAck),
    ),
    Variant(
        "deleted ledger comes back",
        "a bookie accepts adds to a ledger that it has garbage-collected (BookKeeper #4462)",
        "DeletedLedgerTakesNoAdd",
        store=_ForgetsCollectedLedgers,
    ),
    Variant(
        "list of ledgers without a sync",
        "a bookie deletes a new ledger that its metadata server has not heard of yet",
        "OnlyDeletedLedgersAreCollected",
        service=cluster_variants.SkipsSync,
    ),
    Variant(
        "recovery trusts one bookie",
        "the first bookie to respond decides where the ledger ends",
        _DURABLE,
        client=_client(recovery_class=client_variants.TrustsOneBookie),
    ),
    Variant(
        "recovery publishes ensembles early",
        "a second recovery asks bookies that never had the entries",
        _DURABLE,
        client=_client(recovery_class=client_variants.EarlyRecovery),
    ),
    Variant(
        "could not read taken for no such entry",
        "a corrupt log makes recovery close the ledger before existing entries (BookKeeper #2908)",
        _DURABLE,
        bookie=_DeniesUnreadableEntries,
    ),
    Variant(
        "unreachable taken for an answer",
        "a reader counts bookies that never responded (requested in BookKeeper #3952)",
        "ReadersLearnWhatIsConfirmed",
        client=_client(reader_class=client_variants.CountsUnreachableBookies),
    ),
    Variant(
        "auditor without delay",
        "a bookie that is only restarting counts as lost, and all its ledgers are copied",
        "BriefAbsenceIsNoLoss",
        rules=Rules(when_to_audit=cluster_variants.audit_at_once),
    ),
    Variant(
        "metadata before the copy",
        "the metadata refers to a bookie that has no copy yet",
        "RepairIsComplete",
        rules=Rules(replicator=cluster_variants.MetadataBeforeCopy),
    ),
    Variant(
        "silence taken for absence",
        "the metadata store hangs, sessions of running bookies expire, and they count as lost",
        "SilenceIsNoLoss",
        rules=Rules(metadata_silence=cluster_variants.IgnoresSilence),
    ),
    Variant(
        "lost sessions noticed late",
        "a bookie whose session expires during its start never registers again",
        "RunningBookiesStayRegistered",
        service=cluster_variants.NoticesExpiryLate,
    ),
    Variant(
        "cookie not checked",
        "a bookie starts on replaced disks and denies entries that it had acknowledged",
        _DURABLE,
        check_cookie=cluster_variants.ignore_cookie_mismatch,
    ),
)

_KEPT = "AcknowledgedMessagesAreKept"

_BROKER_VARIANTS = (
    Variant(
        "sends after a failed one",
        "a send fails but later sends of its producer are stored, so a retry looks like a"
        " duplicate",
        _KEPT,
        broker=broker_variants.broker_with(
            ledger_class=broker_variants.ContinuesAfterFailedRollover,
            publisher_class=broker_variants.ContinuesAfterFailedSend,
        ),
    ),
    Variant(
        "pushed taken for stored",
        "a message that is still pending is acknowledged as a duplicate",
        _KEPT,
        broker=broker_variants.broker_with(
            deduplication_class=broker_variants.TreatsPendingAsStored
        ),
    ),
    Variant(
        "pushed again behind later ones",
        "entries missing from a failed ledger are rewritten to the next one after later entries",
        "ProducersOrderIsKept",
        broker=broker_variants.broker_with(ledger_class=broker_variants.ResendsOutOfOrder),
    ),
    Variant(
        "list of ledgers written blindly",
        "a former owner overwrites the ledger list of its successor",
        _KEPT,
        broker=broker_variants.broker_with(ledger_class=broker_variants.OverwritesLedgerList),
    ),
    Variant(
        "takeover without recovery",
        "the new owner does not fence the last ledger, so the old owner can still write to it",
        "OneOwnerStores",
        broker=broker_variants.broker_with(ledger_class=broker_variants.TakesOverWithoutRecovery),
    ),
    Variant(
        "marks not rebuilt",
        "the new owner does not replay messages stored after the last deduplication snapshot",
        "MessagesAreStoredOnce",
        broker=broker_variants.broker_with(deduplication_class=broker_variants.SkipsReplay),
    ),
    Variant(
        "receipt of the newest entry",
        "the receipt for a duplicate contains the position of the topic's newest entry",
        "ReceiptsNameTheirMessages",
        broker=broker_variants.broker_with(publisher_class=broker_variants.ReceiptOfNewestEntry),
    ),
    Variant(
        "ledger ids in blocks",
        "each client reserves a hundred ledger ids, so a topic's ids can decrease with a new owner",
        "MessageIdsGrow",
        client=broker_variants.ReservesLedgerIds,
    ),
)

_COPY = "EveryCopyIsDurable"
_STORAGE_PROMISES = {
    "journals removed before the mark": "EveryErrorIsExpected",
    "fence not flushed": "FencedBookieRejectsTheWriter",
    "replay keeps the mark": "",
}
"""The promise that a storage bug breaks ("": none), if it is not `_COPY`."""

VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant("", "the correct system"),
        *_PROTOCOL_VARIANTS,
        *(replace(each, with_brokers=True) for each in _BROKER_VARIANTS),
        *(
            Variant(
                each.name,
                each.description,
                _STORAGE_PROMISES.get(each.name, _COPY),
                store=each.store_factory,
            )
            for each in DEFECTS.values()
        ),
    )
}
"""The variants by name. The name "" denotes the correct system."""
