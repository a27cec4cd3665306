"""The workload's ledgers: a scenario numbers them, the cluster gives them ids."""

import asyncio

from labkit.system.model.errors import BKNoSuchLedgerExistsOnMetadataServerException


class LedgerNumbers:
    """The id of each of the workload's ledgers, by its number in the scenario."""

    def __init__(self) -> None:
        self._ids: dict[int, asyncio.Future[int]] = {}

    def created(self, number: int, ledger_id: int) -> None:
        """Note the id that the cluster gave to the ledger."""
        self._future(number).set_result(ledger_id)

    async def id_of(self, number: int) -> int:
        """Wait until the ledger exists, and return its id.

        Raises `BKNoSuchLedgerExistsOnMetadataServerException` when its writer ended before it had
        created the ledger.
        """
        return await asyncio.shield(self._future(number))

    def writer_ended(self, number: int) -> None:
        """Fail those that wait for the ledger, if it does not exist by now."""
        future = self._future(number)
        if not future.done():
            error = BKNoSuchLedgerExistsOnMetadataServerException(f"ledger {number} was not made")
            future.set_exception(error)
            future.exception()  # asyncio complains about an exception that is never retrieved.

    def no_more(self) -> None:
        """Fail those that wait for any ledger: none will be made."""
        for number in self._ids:
            self.writer_ended(number)

    def _future(self, number: int) -> asyncio.Future[int]:
        if number not in self._ids:
            self._ids[number] = asyncio.get_running_loop().create_future()
        return self._ids[number]
