"""Checks, based on the trace of a run, whether the system has kept its promises.

    events, in order      from a live cluster or a simulated run, with the same kinds of events
    answers               the values that the calls of a simulated run returned
      facts               the state of each ledger, derived from the events
      checks              one class per promise, a small state machine that handles events
    verdicts              valid, invalid or unknown

A check is named after its promise, and the first paragraph of its docstring is the promise.

    invalid   an event contradicts the promise; the verdict contains the event, its time and its
              causes
    unknown   the trace never tested the promise, lacks an event that the check needs, or does not
              show how something ended: a missing response from a bookie, for example, proves
              nothing
    valid     the trace tested the promise, and the promise held

A check has only the events, so it may overlook a broken promise (the docstring of the check
explains when). But it never rejects a correct run, even if the trace is incomplete:

- A trace may end in the middle of a run. Checks of conditions that must hold at the end of a run
  need the epilogue, which a live trace does not have.
- A trace may begin in the middle of a run. If the trace does not include the creation of a ledger,
  earlier events of the ledger are missing, so the result is unknown.
- A live trace may lack the last events of a node that was killed. Apart from that, it contains all
  events of a bookie, in order, because each node sends its events over one connection.

Terms:
    pushed              the writer or a recoverer has begun to add the entry to the ledger
    acknowledged        a bookie has reported that it stored the entry (for messages: see receipt)
    confirmed           LastAddConfirmed has reached the entry, so the add returns to its caller
    recoverer           a node that opens a ledger with recovery
    maintenance node    a bookie, an auditor or a replication worker
    mark                the node in the metadata store that marks a ledger as under-replicated
    lost bookie         a bookie that the auditor has declared lost; the auditor then marks the
                        bookie's ledgers
    epilogue            the node that recovers and reads all ledgers at the end of a simulated run
    receipt             the broker's response to a producer: the message is stored
    answer              the value that a call of a simulated workload returned to its caller

BookKeeper has no such checks. Its tests examine states, and its specification is checked separately
from its code.

Read the modules in this order: `verdict`, `promise`, `facts`, `segments`, `response_check`,
`promises/durability.py`, and `judge`.
"""

from labkit.system.check.facts import EPILOGUE
from labkit.system.check.judge import CHECKS, broken, check_all, explain
from labkit.system.check.promise import Check
from labkit.system.check.verdict import Outcome, Verdict

__all__ = ["CHECKS", "EPILOGUE", "Check", "Outcome", "Verdict", "broken", "check_all", "explain"]
