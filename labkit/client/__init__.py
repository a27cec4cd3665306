"""A ledger's writer and readers: an entry's way to its bookies and back.

    add(payload)      entry id := LastAddPushed + 1; packed once, with the LastAddConfirmed of now
      striping        write set = bookies (entry id + i) mod E, i = 0..Qw-1
      bookie_client   sent to each of them; answers come back in any order
      acknowledged    Qa answers, and every entry before it confirmed -> LastAddConfirmed moves
    close()           the last entry is LastAddConfirmed; written to the metadata by compare-and-set
    read(id)          the bookies of the write set, one after the other, until one has the entry
                      and the digest is right; never beyond LastAddConfirmed

Invariants: entries are confirmed in order; an entry is confirmed only when Qa bookies have it
durable; only explicit "no such entry" answers prove that an entry is not there.

Not here yet: ensemble change (a writer that cannot reach Qa bookies stops), ledger recovery,
speculative and long-poll reads, wire protocol version 3.

Read in this order: `bookkeeper`, `writer`, `striping`, `quorum`, `bookie_client`, `reader`,
`placement`.
"""
