"""Maps errors to response codes.

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

STORAGE_ERRORS = (StorageDamagedException, OSError)

_CODES: dict[type[Exception], Code] = {
    LedgerFencedException: Code.FENCED,
    UnauthorizedAccessException: Code.UNAUTHORIZED,
    NoLedgerException: Code.NO_LEDGER,
    NoEntryException: Code.NO_ENTRY,
}
REJECTIONS: tuple[type[Exception], ...] = tuple(_CODES)


def code_of(error: Exception) -> Code:
    return _CODES.get(type(error), Code.IO_ERROR)
