"""Errors, by whose fault they are and by what they prove.

`BKException` and its kin are what a client of a cluster sees; names and codes are those of
BookKeeper's `client/api/BKException.Code`.  `BookieException` and its kin are raised inside one
bookie.

`PROVES_ABSENCE` answers the question that decides between data loss and safety: which errors prove
that a bookie does not have an entry?  "No such entry" does; "could not read" does not, and must
never be taken for it (BookKeeper issue 2908).
"""

from typing import ClassVar


class LabkitError(Exception):
    """Base of every error that labkit raises on purpose."""


class BKException(LabkitError):
    """An error that a client of the cluster reports."""

    code: ClassVar[int] = -999


class BKReadException(BKException):
    """The bookie could not read the entry: it may or may not exist."""

    code = -1


class BKDigestMatchException(BKException):
    """The entry's digest is wrong: the bytes are damaged, or the password or digest type is."""

    code = -5


class BKNotEnoughBookiesException(BKException):
    """Fewer writable bookies are registered than the ensemble needs."""

    code = -6


class BKNoSuchLedgerExistsException(BKException):
    """The bookie has never heard of the ledger."""

    code = -7


class BKBookieHandleNotAvailableException(BKException):
    """No connection to the bookie: what it did with the request is unknown."""

    code = -8


class BKLedgerRecoveryException(BKException):
    """The ledger could not be recovered now: where it ends is not known yet."""

    code = -10


class BKLedgerClosedException(BKException):
    """The ledger (or this handle of it) is closed."""

    code = -11


class BKWriteException(BKException):
    """The bookie could not store the entry."""

    code = -12


class BKNoSuchEntryException(BKException):
    """The bookie has the ledger and does not have the entry."""

    code = -13


class BKIncorrectParameterException(BKException):
    """An argument is out of its range; the message says which range is allowed."""

    code = -14


class BKMetadataVersionException(BKException):
    """Another client changed the metadata since it was read."""

    code = -17


class BKClientClosedException(BKException):
    """This client was closed: what became of its last requests is unknown."""

    code = -19


class BKLedgerExistException(BKException):
    """The ledger id is taken."""

    code = -20


class BKAddEntryQuorumTimeoutException(BKException):
    """Too few bookies acknowledged the entry in time; some of them may still have it."""

    code = -21


class BKTimeoutException(BKException):
    """No answer in time: what the bookie did with the request is unknown."""

    code = -23


class BKNoSuchLedgerExistsOnMetadataServerException(BKException):
    """The metadata store has no such ledger."""

    code = -25


class BKLedgerFencedException(BKException):
    """Another client recovers or has recovered the ledger: this writer must stop."""

    code = -101


class BKUnauthorizedAccessException(BKException):
    """The password is not the ledger's."""

    code = -102


class BKWriteOnReadOnlyBookieException(BKException):
    """The bookie takes no writes at present."""

    code = -104


class BKLedgerIdOverflowException(BKException):
    """There are no ids left for new ledgers."""

    code = -106


class BKMetadataSerializationException(BKException):
    """The metadata's bytes cannot be understood."""

    code = -107


PROVES_ABSENCE = (BKNoSuchEntryException, BKNoSuchLedgerExistsException)
"""The bookie looked, and it does not have the entry.  After every other error it may have it."""


class BookieException(LabkitError):
    """Raised inside one bookie."""


class NoLedgerException(BookieException):
    """This bookie stores nothing of the ledger.  Definite."""


class NoEntryException(BookieException):
    """This bookie stores the ledger, but not this entry.  Definite."""


class LedgerFencedException(BookieException):
    """The ledger is fenced on this bookie: only recovery may add to it."""


class UnauthorizedAccessException(BookieException):
    """The master key in the request is not the ledger's."""


class NoWritableLedgerDirException(BookieException):
    """No ledger directory has room, and the bookie is not allowed to be read-only."""


class StorageDamagedException(BookieException):
    """Bytes on disk are not what the format allows; says file and offset.  Proves nothing about
    what exists.
    """


class OtherStorageException(BookieException):
    """The directory's files are of a storage, or of a layout, that labkit does not read."""


class InvalidCookieException(BookieException):
    """The disk belongs to another bookie or another cluster, or is not complete."""
