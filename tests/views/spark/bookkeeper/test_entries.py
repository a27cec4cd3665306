"""Tests that entries are read ahead while Spark consumes the rows."""

from time import sleep

import pytest

from labkit.system.client.context import ClientConfig
from labkit.views.spark.bookkeeper.entries import read_span
from labkit.views.spark.bookkeeper.opening import open_reader
from labkit.views.spark.bookkeeper.options import read_options
from labkit.views.spark.bookkeeper.spans import EntrySpan, Lane, LedgerSnapshot
from tests.views.spark.bookkeeper.stage import Stage

pytestmark = pytest.mark.slow
TIMEOUT_S = 1.0


def test_entries_are_read_however_slowly_rows_are_taken(stage: Stage) -> None:
    writer = stage.write_ledger([bytes(600_000)] * 6, 1, 1, 1)
    ledger_id = writer.ledger_id

    async def read() -> list[int]:
        config = ClientConfig(request_timeout_s=TIMEOUT_S)
        client = await stage.cluster.connect(config=config)
        ledger = LedgerSnapshot(ledger_id, 5, writer.metadata.length)
        span = EntrySpan(ledger, Lane("", ledger_id), 0, 5)
        found: list[int] = []
        options = read_options({"zookeeper": stage.cluster.zookeeper, "ledgers": str(ledger_id)})
        reader = await open_reader(client, ledger, options)
        async for entries in read_span(reader, span, 10):
            found += [entry.entry_id for entry in entries]
            # Block the event loop, as Spark does until it asks for the next rows.
            sleep(TIMEOUT_S * 1.5)  # noqa: ASYNC251
        return found

    assert stage.run(read()) == list(range(6))
