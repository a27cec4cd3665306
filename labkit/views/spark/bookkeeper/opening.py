"""Opens ledgers with the query's password and without recovering them, and reports lost ledgers.

The client's own methods would query bookies, and might use a different password.
"""

from dataclasses import replace

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reader import LedgerReader
from labkit.system.model.errors import LabkitError
from labkit.system.model.ledger import LedgerMetadata
from labkit.views.spark.bookkeeper.options import OptionError, Options
from labkit.views.spark.bookkeeper.spans import LedgerSnapshot


class LedgerGoneError(LabkitError):
    """A ledger that the query needs was deleted, or trimmed from its topic."""


def report_loss(ledger_id: int, options: Options) -> None:
    """Raise `LedgerGoneError`, unless option `failOnDataLoss` is false. Call this if a ledger does
    not exist.
    """
    if options.fail_on_data_loss:
        raise LedgerGoneError(
            f"ledger {ledger_id} was deleted or trimmed from its topic, so this query cannot read"
            " its messages. Keep ledgers longer (with retention or a subscription). To read the"
            " remaining ledgers, call load() again, because a DataFrame keeps its plan, or set"
            " option 'failOnDataLoss' to 'false'"
        ) from None


async def read_metadata(client: BookKeeper, ledger_id: int, options: Options) -> LedgerMetadata:
    """Return the ledger's metadata, with the query's password.

    Raises `OptionError` if the password is wrong, because no digest would match, and
    `BKNoSuchLedgerExistsOnMetadataServerException` if the ledger does not exist.
    """
    metadata = await client.ledger_metadata(ledger_id)
    if metadata.has_password and metadata.password != options.password:
        problem = "has a different password" if options.password else "requires a password"
        raise OptionError(f"option 'password': ledger {ledger_id} {problem}")
    return replace(metadata, password=options.password)


async def open_reader(client: BookKeeper, ledger: LedgerSnapshot, options: Options) -> LedgerReader:
    """Return a reader for the entries that were confirmed when the query was planned.

    The reader uses the current metadata, because autorecovery may have moved entries to other
    bookies since then. Raises the same errors as `read_metadata`.
    """
    metadata = await read_metadata(client, ledger.ledger_id, options)
    reader = LedgerReader(ledger.ledger_id, metadata, client.context)
    # Confirmed entries stay confirmed.
    reader.last_add_confirmed = ledger.last_entry_id
    return reader
