"""The promises of the system, each a named check over a trace.

    events, in order      of a live cluster or of a simulated run: the same kinds, the same checks
    answers               what the calls of a simulated run returned
      facts               what the events say of each ledger: write sets, copies, confirmed, closed
      checks              one class for each promise, a small state machine fed with events
    verdicts              valid, invalid or unknown

A promise is written once.  The first sentence of a check's docstring is the promise, its class name
is the name of the check, and a broken promise says which entry, which bookie and which moment.

    invalid   an event contradicts the promise; the verdict names it and shows what led there
    unknown   the trace lacks what is needed, or an outcome stayed open: a bookie that could not be
              asked proves nothing
    valid     the trace put the promise to the test, and it held

A check knows only what events say, so it can err in one direction only: it may miss a broken
promise, and its docstring says where, but it never rejects a correct run.

The promises: what was confirmed is there, each copy stays where it is, readers agree, nothing that
can be lost is read, a closed ledger never changes, one writer, write sets, ack quorum, ack after
sync, confirmation in order, fence before its answer and for good, only deleted ledgers are
collected and they stay deleted, readers learn what is confirmed, repair complete, a brief absence
is not a loss, nor is a silence of the metadata store, bookies that run stay registered, MessageIDs
grow, acknowledged messages are kept, stored once, in their producer's order and where their
receipts say, one owner, every error is expected.
After them come the invariants of the public TLA+ specification, under their names there; then what
callers are answered is true, messages keep their content, consumers get them (or those of each key)
in order, without a gap and not again, an unloaded topic is closed, what is lost is marked and
repaired, and each step of a client's work ends.
BookKeeper itself has no such checks: its tests look at states, and its specification is separate
from its code.

    promises/   the checks

Read in this order: `verdict`, `promise`, `handlers`, `facts`, `segments`, `answers`, `attempts`,
`messages`, `promises/durability.py`, `judge`.
"""

from labkit.system.check.facts import EPILOGUE
from labkit.system.check.judge import CHECKS, broken, check_all, explain
from labkit.system.check.promise import Check
from labkit.system.check.verdict import Outcome, Verdict

__all__ = ["CHECKS", "EPILOGUE", "Check", "Outcome", "Verdict", "broken", "check_all", "explain"]
