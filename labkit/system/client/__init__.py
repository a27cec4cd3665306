"""The BookKeeper client: creates, writes, reads and recovers ledgers.

    ensemble      the E bookies that currently store a ledger
    write set     the Qw (write quorum) bookies of the ensemble that store one entry
    Qa            ack quorum: an add completes after Qa bookies of its write set have acknowledged
                  it; E >= Qw >= Qa >= 1
    striping      the write set of entry e starts at ensemble index e mod E
    segment       a range of entries with the same ensemble; when a bookie fails, a new segment
                  starts
    confirmed     an entry is confirmed if it has Qa acknowledgements and all earlier entries are
                  confirmed; LastAddConfirmed (LAC) is the last such entry, and readers stop there
    fence         a flag that makes a bookie reject further adds from a ledger's writer
    digest        a checksum (or a MAC, keyed with the ledger's password) stored with each entry

The path of an entry:

    step                    module           what happens
    add                     writer           assign the next entry id, pack the entry with the
                                             current LAC, and send it to its write set
    response                fence_check      count the acknowledgement, but only if the bookie
                                             cannot have forgotten a fence
    confirm                 writer           advance LAC over the entries that have Qa
                                             acknowledgements
    a bookie fails          ensemble_change  replace it for entries from LAC + 1 on: compare-and-set
                                             the metadata, then send the pending entries to the new
                                             bookie
    close                   writer           store LAC as the last entry, by compare-and-set
    read_entry              reads            ask one bookie of the write set after another until one
                                             returns the entry with a correct digest
    open_ledger             recovery         take the ledger over from its writer: store
                                             IN_RECOVERY, fence, find the remaining entries and
                                             write them back, store CLOSED

Invariants:

- Entries are confirmed in order.
- When an entry is confirmed, Qa bookies have it on disk, and none of them can have forgotten
  a fence. (With deferred sync, `force` puts it on disk.)
- A new segment starts after all confirmed entries.
- Only an explicit "no such entry" or "no such ledger" response proves that a bookie does not have
  an entry.
- A closed ledger contains every entry that was ever confirmed.

If the metadata store is unavailable or the client's session expires, a writer continues on its
existing connections, because it owns no ephemeral nodes. Until the store responds again, the writer
cannot connect to a bookie or replace one. The writer ends if:

- an add can no longer get Qa acknowledgements, or does not get them within
  `add_entry_quorum_timeout_s`;
- the store does not respond to the compare-and-set of an ensemble change, because it is then
  unknown whether the new ensemble was stored;
- the ledger was fenced or closed, or this client was closed;
- the ensemble has changed too often, or the metadata would become too large.

    protocol/    how a client talks to one bookie
    placement/   which bookies store a ledger

Read in this order: `context`, `striping`, `writer`, `pending_add`, `protocol/`, `writer_interface`,
`ensemble_change`,
`ensemble`, `metadata_update`, `fence_check`, `quorum_timeout`; `reader`, `reads`, `batch_read`;
`quorum`, `recovery`; `bookkeeper`; then the features of protocol version 3: `lac_reads`,
`explicit_lac`, `deferred_sync`.

Differences from BookKeeper:

- If a failed bookie cannot be replaced, the writer continues as long as Qa bookies are left.
  BookKeeper's writer fails, unless `delayEnsembleChange` is set.
- A writer that fails leaves its ledger open, for its owner to close or recover. BookKeeper's writer
  closes it immediately.
- Recovery does not report its progress to readers (`RecoveryWriter.lac_to_piggyback` explains why).
- A writer ignores acknowledgements from a bookie that may have forgotten a fence. BookKeeper's
  writer counts them, so it may confirm entries although a recovery has already closed the ledger at
  an earlier entry.
- Recovery queries all bookies of a write set in parallel, not one after another.
- During an ensemble change, new entries are sent to the old ensemble; after the change, they are
  also sent to the new bookies. BookKeeper sends them to the ensemble that is in the metadata at
  that moment.
- Not supported: placement by region or by free space, and counting acknowledgements per rack
  (`enforceMinNumFaultDomainsForWrite`).
"""
