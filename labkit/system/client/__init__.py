"""A ledger's writer, readers and recovery: an entry's way to its bookies and back.

    add(payload)      entry id := LastAddPushed + 1; packed once, with the LastAddConfirmed of now
      striping        write set = bookies (entry id + i) mod E, i = 0..Qw-1
      protocol_v2     sent to each of them; answers come back in any order
      acknowledged    Qa answers, and every entry before it confirmed -> LastAddConfirmed moves
    a bookie fails    another takes its place from LastAddConfirmed + 1 on: compare-and-set of the
                      metadata, then what is pending goes again to the new bookie only; nothing is
                      confirmed meanwhile
    close()           the last entry is LastAddConfirmed; written to the metadata by compare-and-set
    read(id)          the bookies of the write set, one after the other, until one has the entry
                      and the digest is right; never beyond LastAddConfirmed
    open_ledger()     a ledger that is not closed is taken from its writer: IN_RECOVERY, fence, read
                      on and write back, CLOSED

Invariants: entries are confirmed in order; an entry is confirmed only when Qa bookies that cannot
have forgotten a fence have it durable; a segment begins after all confirmed entries; only explicit
"no such entry" answers prove that an entry is not there; a closed ledger has every entry that was
ever confirmed.

Differences from BookKeeper: there a writer ends when a failed bookie cannot be replaced, even if Qa
bookies are left (`delayEnsembleChange` aside), and one that ends closes its ledger at once (here
its owner does); recovery there reports its progress to readers (`RecoveryWriter` says why not
here); a writer there counts what bookies acknowledge that were emptied and came back, and so
confirms entries behind the end of a ledger that was recovered meanwhile (`fence_check` says why
not here).  Recovery here asks a whole write set at once, not one by one.  While an ensemble change
runs, new entries go to the old ensemble, and when it ends, also to the bookies that are new; there
they go to the ensemble that the metadata name at that moment.  Left out: placement by regions or by
free space, and acknowledgements that count by racks (`enforceMinNumFaultDomainsForWrite`).

    protocol/    how a client talks to one bookie
    placement/   which bookies store a ledger

Read in this order: `bookkeeper`, `context`, `writer`, `pending_add`, `striping`, `fence_check`,
`ensemble_change`, `ensemble`, `metadata_update`, `quorum_timeout`; `reader`, `reads`, `batch_read`;
`quorum`, `recovery`; then protocol version 3: `lac_reads`, `explicit_lac`, `deferred_sync`.
"""
