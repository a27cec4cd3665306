"""What a bookie says when it cannot do what it was asked.

In BookKeeper: `proto/ReadEntryProcessor.java`, `proto/WriteEntryProcessor.java`.
"""

from labkit.system.model.errors import (
    LedgerFencedException,
    NoEntryException,
    NoLedgerException,
    StorageDamagedException,
    UnauthorizedAccessException,
)
from labkit.system.model.wire import Code

REFUSALS = (
    LedgerFencedException,
    UnauthorizedAccessException,
    NoLedgerException,
    NoEntryException,
)
UNREADABLE = (StorageDamagedException, OSError)

_CODES: dict[type[Exception], Code] = {
    LedgerFencedException: Code.FENCED,
    UnauthorizedAccessException: Code.UNAUTHORIZED,
    NoLedgerException: Code.NO_LEDGER,
    NoEntryException: Code.NO_ENTRY,
}


def code_of(error: Exception) -> Code:
    """The code for a refusal that is certain; every other error is an I/O error."""
    return _CODES.get(type(error), Code.IO_ERROR)
