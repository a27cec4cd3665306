"""A cluster that heals itself: lost copies are replaced without a request.

Each instance is a candidate for auditor, and a replication worker; one runs in every bookie's
process.  They know of each other only through nodes of the metadata store.

    auditor    a bookie goes       wait for it (`lostBookieRecoveryDelay`), unless more than one is
                                   gone; then read the metadata of all ledgers and mark those that
                                   name a bookie which is not registered
               now and then        test the copies of all ledgers, and mark those that miss some;
                                   if asked to, report the closed ones with write sets in too few
                                   racks, and mark them
    worker  1  lock                take any marked ledger that is not locked
            2  test                ask the bookies of each fragment for its first and last copy, or
                                   for a percentage of all; gone, silent, "no such entry" and a
                                   wrong digest count alike here: a copy that cannot be read
            3  copy                read what is missing from the other bookies, and store it on a
                                   bookie outside the ensemble; wait until it is durable there
            4  publish             put the new bookie into the metadata, by compare-and-set
            5  test again          nothing is missing: move copies that should be in other racks, if
                                   asked to; then remove the mark, if it is unchanged, and the lock.
                                   Else keep the lock for a while and try again
    bookie     now and then        give up the entries of closed ledgers that name it nowhere: they
                                   were copied to others while it was away

A ledger's mark goes from *marked* to *locked* (being repaired, or waiting) and away; a lock that is
released, or whose holder dies, leaves it marked.

The last fragment of an open ledger belongs to its writer, who replaces a lost bookie at its next
add.  If the writer has not done so after `openLedgerRereplicationGracePeriod`, the worker recovers
the ledger: that fences the writer and closes the ledger, which then can be repaired.

Invariants: the metadata names a bookie only when it has every copy that it should have (3 before
4); two workers never have the same lock; a mark goes only if the ledger was not marked again since
it was locked; nothing is marked, and nothing removed, on an answer that was not certain, in the
first seconds after the metadata store fell silent, or while it has no list of bookies; no copy goes
that the metadata name, or may be about to name.

An instance lives in one metadata session, which holds its vote and its locks.  When the session is
lost, or a request may or may not have been carried out, the instance ends, and the world around it
begins a new one.  Any other error in a part ends the instance, and its bookie with it.

Differences from BookKeeper:
  - After a silence of the metadata store no bookie counts as lost for a grace period: ten seconds
    or two session time-outs, whichever is longer.  An auditor never counts the bookie of the
    same process as lost.
  - A new auditor also waits for bookies that left before its election, and for the grace period for
    those that lost their sessions together with its predecessor.
  - The worker copies to a bookie only the entries that its stripes give it, and keeps a window of
    entries under way instead of batches: they are read some at a time, in one request where every
    bookie has all entries, while the ones before them are stored.  With too few bookies it
    repairs what it can, and a bookie that lost copies may get them again.
  - Tests verify digests, too.
  - Earlier fragments of an open ledger count as closed whatever LastAddConfirmed is known, since a
    new segment begins after LastAddConfirmed.
  - A bookie that is merely read-only does not get a writer fenced.
  - An interrupted check is not recorded as done.
  - A lock holds the bookie's id instead of its host.
  - The replicas check reads the entries of a bookie that cannot list them.
  - A bookie keeps its copies of a ledger that is short of copies, copies that have just arrived,
    and its fence.
  - A ledger in too few racks is marked only if there are bookies to move it to, and an absent
    bookie counts for its rack.

Read in this order: `lost_bookies`, `fragments`, `underreplication`, `election`, `metadata_silence`,
`missing_bookies`, `auditor`, `periodic_check`, `worker`, `checker`, `replicator`, `fragment_copy`,
`daemon`, `overreplicated`; at the edges `config`, `formats`, `watched_nodes`, `ledger_view`,
`replicas_check`, `random_port`.
"""
