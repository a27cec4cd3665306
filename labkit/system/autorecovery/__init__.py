"""Autorecovery replaces lost copies of entries automatically.

An instance of autorecovery (`daemon.AutoRecovery`) runs in a separate process, or in a bookie's
process unless autorecovery is disabled there. Each instance runs a replication worker and
participates in the election of the auditor. Instances communicate only through nodes in the
metadata store.

    auditor    marks ledgers with missing copies, when bookies leave and periodically (`auditor`)
    worker     locks a marked ledger, copies the missing entries to other bookies, and only then
               changes the ledger's metadata (`worker`, `replicator`)
    bookie     periodically deletes entries of closed ledgers whose metadata no longer lists it,
               because they were copied elsewhere while it was away (`overreplicated`)

Terms:
    missing            a bookie that should be registered but is not
    lost               a bookie that an audit found missing for too long; the audit marks its
                       ledgers
    under-replicated   a fragment with missing copies, or a ledger with such a fragment
    mark, lock         nodes in the metadata store; a ledger is marked first, then locked by a
                       worker. If the lock is released, or its holder dies, the mark remains.
    index              a bookie's position in the ensemble of a fragment
    silence            a period during which the metadata store did not respond; after a silence, a
                       grace period must pass before the list of bookies is settled (can be trusted)
    rw                 replication worker, in the names of BookKeeper's settings

Invariants:
 1. The metadata lists a bookie only after the bookie has stored all its copies (`replicator`).
 2. Two workers never hold the same lock (`underreplication`).
 3. A mark is deleted only if the ledger has not been marked again since it was locked
    (`underreplication`).
 4. An uncertain response from the metadata store, or an unsettled list of bookies, never causes a
    ledger to be marked or anything to be deleted (`auditor`, `checker`, `metadata_silence`).
 5. A bookie does not delete its copies of a ledger if the metadata lists the bookie, or is about to
    list it (`overreplicated`).

An instance uses one metadata session, which owns the instance's vote and locks. If the session is
lost, or if a request to the metadata store fails unexpectedly, the instance stops, and its owner
starts a new one. Any other error stops the instance, and also the bookie in the same process.

Read in this order: `audit_rules`, `paths`, `underreplication`, `election`, `metadata_silence`,
`missing_bookies`, `periodic_check`, `auditor`, `ledger_view`, `fragments`, `checker`,
`worker`, `replicator`, `fragment_copy`, `daemon`, `overreplicated`; then `config`, `formats`,
`replicas_check`, `random_source`.

Differences from BookKeeper:
  - After the metadata store has been silent, no bookie counts as lost for ten seconds or two
    session timeouts, whichever is longer. The bookie in the auditor's own process never counts as
    lost.
  - A new auditor also applies the lost-bookie delay to bookies that left before its election. It
    gives a grace period to bookies that lost their sessions at the same time as the previous
    auditor.
  - During a repair, a bookie receives only the entries that striping assigns to it. While entries
    are being stored, the worker already reads the next ones (in one request, if every bookie has
    all entries). If there are too few bookies, the worker repairs as much as it can, and may
    restore lost copies on the bookie that lost them.
  - A worker that could not repair a ledger retries as soon as a bookie registers.
  - Checks verify digests, and test entries from all parts of a fragment (see `fragments`).
  - All fragments of an open ledger except the last count as closed, regardless of the
    LastAddConfirmed that the bookies report, because a new segment begins after LastAddConfirmed.
  - If a bookie of an open ledger is merely read-only, the writer is not fenced.
  - An interrupted check is not recorded as completed.
  - A lock contains the bookie id instead of the host name.
  - If a bookie cannot list its entries, the replicas check reads them.
  - A bookie does not delete its copies of an under-replicated ledger, copies that it received
    recently, or the record that a ledger is fenced.
  - A ledger on too few racks is marked only if its copies can be moved to suitable bookies.
    A copy on an unregistered bookie still counts as a copy in that bookie's rack.
"""
