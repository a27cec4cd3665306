"""A cluster that heals itself: copies that are lost are made anew, and nobody has to ask for it.

Each instance is a candidate for auditor, and a replication worker; one runs in every bookie's
process.  They know of each other only through nodes of the metadata store.

    auditor    a bookie goes       wait for it (`lostBookieRecoveryDelay`), unless more than one is
                                   gone; then read the metadata of all ledgers and mark those that
                                   name a bookie which is not registered
               now and then        test the copies of all ledgers, and mark those that miss some;
                                   if asked to, tell which closed ones have write sets in too few
                                   racks, and mark them
    worker  1  lock                take any marked ledger that nobody has locked
            2  test                ask the bookies of each fragment for its first and last copy, or
                                   for a percentage of all; gone, silent, "no such entry" and a
                                   wrong digest are all the same here: a copy that cannot be read
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

Invariants: the metadata names a bookie only when it has every copy that it is to have (3 before 4);
two workers never have the same lock; a mark goes only if nobody has marked the ledger since it was
locked; nothing is marked, and nothing removed, on an answer that was not certain, in the first
seconds after the metadata store fell silent, or while it has no list of bookies; no copy goes that
the metadata name, or that somebody may be about to name.

An instance lives in one metadata session, which holds its vote and its locks.  When the session is
lost, or a request may or may not have been carried out, the instance ends, and the world around it
begins a new one.  A part that dies of anything else takes the instance, and its bookie, with it.

Otherwise than in BookKeeper: a new auditor, too, waits for a bookie that went before its election,
and that grace period for all that lost their sessions with its predecessor; the worker copies to a
bookie only what its stripes give it, and a window of entries instead of batches; with too few
bookies it repairs what it can, and a bookie that lost copies may get them again; digests are
verified by tests, too; earlier fragments of an open ledger count as closed whatever
LastAddConfirmed is known, as a segment begins behind it; a bookie that is only read-only gets no
writer fenced; a check that was broken off is not stamped as made; after a silence of the metadata
store nobody is lost for ten seconds or two session time-outs, whichever is longer, and no auditor
ever takes the bookie of its own process for lost; a lock tells the bookie's id instead of its host;
the replicas check reads the entries of a bookie that gives no list of them; a bookie gives up no
copies of a ledger that is short of them, or that have just come, and keeps its fence; a ledger in
too few racks is marked only if there are bookies to move it to, and a bookie that is away counts
for its rack.

Read in this order: `lost_bookies`, `fragments`, `underreplication`, `election`, `steadiness`,
`auditor`, `worker`, `checker`, `replicator`, `daemon`, `overreplicated`; at the edges `config`,
`formats`, `watched`, `copies`, `replicas_check`, `lots`.
"""
