"""Maps the numbers that a scenario gives its ledgers to the ids that the cluster assigns."""

import asyncio

from labkit.system.model.errors import BKNoSuchLedgerExistsOnMetadataServerException


class LedgerNumbers:
    def __init__(self) -> None:
        self._ids: dict[int, asyncio.Future[int]] = {}

    def created(self, number: int, ledger_id: int) -> None:
        self._future(number).set_result(ledger_id)

    async def id_of(self, number: int) -> int:
        """Wait until the ledger exists, and return its id.

        Raises `BKNoSuchLedgerExistsOnMetadataServerException` if the ledger's writer ended before
        creating it.
        """
        return await asyncio.shield(self._future(number))

    def writer_ended(self, number: int) -> None:
        """Let all steps that are waiting for the ledger fail, unless it has been created."""
        future = self._future(number)
        if not future.done():
            error = BKNoSuchLedgerExistsOnMetadataServerException(f"ledger {number} was not made")
            future.set_exception(error)
            future.exception()  # Otherwise, asyncio warns that nobody retrieved the error.

    def no_more(self) -> None:
        """Let all steps that are waiting for a ledger fail, because no more ledgers will be
        created.
        """
        for number in self._ids:
            self.writer_ended(number)

    def _future(self, number: int) -> asyncio.Future[int]:
        if number not in self._ids:
            self._ids[number] = asyncio.get_running_loop().create_future()
        return self._ids[number]
