"""Checks, on the trace of a run, whether the system has kept its promises.

    events, in order      from a live cluster or a simulated run, with the same kinds of events
    answers               the values that the calls of a simulated run returned
      facts               the state of each ledger, derived from the events
      checks              one class per promise, a small state machine that handles events
    verdicts              valid, invalid or unknown

A check is named after its promise, and the first paragraph of its docstring is the promise. If the
promise is broken, the reason names the entry, the bookie and the time.

    invalid   an event contradicts the promise; the verdict names the event and shows its causes
    unknown   the trace lacks an event that the check needs, or does not show how something ended:
              for example, a missing response from a bookie proves nothing
    valid     the trace tested the promise, and the promise held

A check sees only events, so it may miss a broken promise (its docstring says when), but it never
rejects a correct run.

Terms:
    pushed         the writer or a recoverer has begun to add the entry to the ledger
    confirmed      LastAddConfirmed has reached the entry
    recoverer      a node that opens a ledger with recovery
    caretaker      a bookie, an auditor or a replication worker
    mark           the record in the metadata store that marks a ledger as under-replicated
    lost bookie    a bookie that the auditor has declared lost; the auditor then marks its ledgers
    epilogue       the node that recovers and reads all ledgers at the end of a simulated run
    receipt        the broker's response to a producer, with the message's MessageID

BookKeeper has no such checks: its tests examine states, and its specification is separate from its
code.

Read in this order: `verdict`, `promise`, `facts`, `segments`, `responses`, `attempts`,
`promises/durability.py`, `judge`.
"""

from labkit.system.check.facts import EPILOGUE
from labkit.system.check.judge import CHECKS, broken, check_all, explain
from labkit.system.check.promise import Check
from labkit.system.check.verdict import Outcome, Verdict

__all__ = ["CHECKS", "EPILOGUE", "Check", "Outcome", "Verdict", "broken", "check_all", "explain"]
