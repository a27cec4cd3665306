"""Descriptions of what a failed check of `labkit.system.check` means.

Views show these descriptions; the name of the check appears in a tooltip.
"""

import re

FAILURES = {
    "AcknowledgedIsDurable": "a confirmed entry is lost",
    "EveryCopyIsDurable": "a bookie has lost an acknowledged entry",
    "ReadersAgree": "two readers got different contents",
    "NothingBeyondLacIsRead": "a reader got an unconfirmed entry",
    "ClosedLedgerNeverChanges": "a closed ledger has changed",
    "OneWriter": "a writer added entries after recovery",
    "WriteSetIsRight": "an entry went to the wrong bookies",
    "AckFollowsSync": "a bookie acknowledged before it synced",
    "AckQuorumIsReached": "an entry was confirmed with too few acks",
    "LacAdvancesInOrder": "entries were confirmed out of order",
    "FenceIsDurableBeforeTheResponse": "a bookie answered a recovery without a durable fence",
    "FencedBookieRejectsTheWriter": "a fenced bookie accepted an add",
    "OnlyDeletedLedgersAreCollected": "an existing ledger was garbage-collected",
    "DeletedLedgerTakesNoAdd": "an add to a deleted ledger was acknowledged",
    "ReadersLearnWhatIsConfirmed": "a reader got an outdated LastAddConfirmed",
    "RepairIsComplete": "a repair was incomplete",
    "BriefAbsenceIsNoLoss": "a briefly absent bookie was considered lost",
    "SilenceIsNoLoss": "a metadata outage was mistaken for lost bookies",
    "RunningBookiesStayRegistered": "a running bookie is not registered",
    "MessageIdsGrow": "message ids did not increase",
    "AcknowledgedMessagesAreKept": "an acknowledged message is lost",
    "MessagesAreStoredOnce": "a message was stored twice",
    "ProducersOrderIsKept": "a producer's messages are out of order",
    "ReceiptsNameTheirMessages": "a receipt has the wrong MessageID",
    "OneOwnerStores": "two brokers stored messages of a topic",
    "EveryErrorIsExpected": "a node raised an uncaught exception",
    "TypeOK": "a ledger has invalid metadata",
    "NoDivergenceBetweenClientAndMetaData": "the writer confirmed entries beyond the ledger's end",
    "AllCommittedEntriesReachAckQuorum": "a confirmed entry has too few copies",
    "OnlyValidFragments": "a segment starts before its predecessor",
    "NoDirtyReads": "a bookie reported an unconfirmed LastAddConfirmed",
    "AllNonEmptyLedgersInLedgerList": "a ledger is missing from its topic's list",
    "EntryOrderMaintained": "entries of a topic are out of order",
    "OnlyOneLedgerOpenAtATime": "a topic had two open ledgers",
    "LedgerIsClosed": "a ledger was never closed",
    "AddsReturnWhenConfirmed": "an add returned too early or with a wrong id",
    "ReadsReturnWhatWasWritten": "a read returned the wrong entries",
    "ClosedLengthIsRight": "a closed ledger has the wrong length",
    "MessagesKeepTheirContent": "a message's payload has changed",
    "OwnersConsumersGetAllInOrder": "a consumer missed a message or got it out of order",
    "DeliveriesKeepTheOrder": "messages were delivered out of order",
    "KeysKeepTheirOrder": "messages of a key were delivered out of order",
    "NoMessageIsSkipped": "a subscription skipped a message",
    "AcknowledgedIsNotDeliveredAgain": "an acknowledged message was redelivered",
    "UnloadedTopicsAreClosed": "an unloaded topic was still served",
    "LostBookiesLedgersAreMarked": "a lost bookie's ledger was not marked",
    "MarkedLedgersAreRepaired": "a marked ledger was not repaired",
    "StepsEnd": "a client operation never finished",
}


def failure_of(check: str) -> str:
    """Describe the failed check or, if it is unknown, return its name as words."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", check).lower()
    return FAILURES.get(check, f"broken: {spaced}")
