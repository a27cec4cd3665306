"""Exception classes.

Clients of a cluster see `BKException` and its subclasses, which are named as in BookKeeper's
`client/api/BKException.Code`. `BookieException` and its subclasses are raised inside a bookie.

The response "no such entry" proves that a bookie does not have an entry (`PROVES_ABSENCE`). The
response "could not read" proves nothing, and treating it as proof could lose data (BookKeeper issue
2908).
"""


class LabkitError(Exception):
    """Base class of all errors that labkit raises on purpose."""


class BKException(LabkitError):
    """An error that is reported to a client of the cluster."""


class BKReadException(BKException):
    """The bookie could not read the entry, which may or may not exist."""


class BKDigestMatchException(BKException):
    """The entry's digest does not match: corrupt bytes, or a wrong password or digest type."""


class BKNotEnoughBookiesException(BKException):
    """There are fewer registered, writable bookies than the ensemble needs."""


class BKNoSuchLedgerExistsException(BKException):
    """The bookie does not have the ledger."""


class BKBookieHandleNotAvailableException(BKException):
    """There is no connection to the bookie, so the outcome of the request is unknown."""


class BKLedgerRecoveryException(BKException):
    """The recovery of the ledger has failed, so the ledger's last entry is still unknown."""


class BKLedgerClosedException(BKException):
    """The ledger, or this handle to it, is closed."""


class BKWriteException(BKException):
    """The bookie could not store the entry."""


class BKNoSuchEntryException(BKException):
    """The bookie has the ledger, but not the entry."""


class BKIncorrectParameterException(BKException):
    """An argument is out of range; the message states the allowed range."""


class BKMetadataVersionException(BKException):
    """Another client changed the metadata since it was read."""


class BKClientClosedException(BKException):
    """This client was closed, so the outcome of its last requests is unknown."""


class BKLedgerExistException(BKException):
    """A ledger with this id already exists."""


class BKAddEntryQuorumTimeoutException(BKException):
    """Too few bookies acknowledged the entry in time; some of them may still have it."""


class BKTimeoutException(BKException):
    """The bookie did not respond in time, so the outcome of the request is unknown."""


class BKNoSuchLedgerExistsOnMetadataServerException(BKException):
    """The metadata store has no such ledger."""


class BKLedgerFencedException(BKException):
    """Another client is recovering or has recovered the ledger, so this writer must stop."""


class BKUnauthorizedAccessException(BKException):
    """The password does not match the ledger's password."""


class BKWriteOnReadOnlyBookieException(BKException):
    """The bookie is currently read-only."""


class BKLedgerIdOverflowException(BKException):
    """No ids are left for new ledgers."""


class BKMetadataSerializationException(BKException):
    """The metadata cannot be decoded."""


PROVES_ABSENCE = (BKNoSuchEntryException, BKNoSuchLedgerExistsException)
"""Errors that prove that a bookie does not have an entry. After any other error, it may have it."""


class BookieException(LabkitError):
    """Base class of the errors that are raised inside a bookie."""


class NoLedgerException(BookieException):
    """This bookie certainly has no entries of the ledger."""


class NoEntryException(BookieException):
    """This bookie has the ledger, but certainly not this entry."""


class LedgerFencedException(BookieException):
    """The ledger is fenced on this bookie, so only recovery may add entries."""


class UnauthorizedAccessException(BookieException):
    """The master key in the request does not match the ledger's master key."""


class NoWritableLedgerDirException(BookieException):
    """All ledger directories are full, and the bookie is not allowed to become read-only."""


class StorageDamagedException(BookieException):
    """Bytes on disk violate the file format; this does not prove that any entry is absent."""


class OtherStorageException(BookieException):
    """The directory contains files of a storage type or layout that labkit cannot read."""


class InvalidCookieException(BookieException):
    """The disk belongs to another bookie or another cluster, or is incomplete."""
