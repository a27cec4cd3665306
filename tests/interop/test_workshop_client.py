"""BookKeeper's shell reads and recovers the ledgers of the workshop's client program.

Conversely, the program takes over ledgers of the official client.
"""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from labkit.course.workshop.client.running import ProgramProcess, run_to_end, start_program
from labkit.course.workshop.tracks import track
from tests.interop.conftest import Cluster
from tests.interop.payloads import LAST_ENTRY_ID, PAYLOADS
from tests.interop.test_java_shell import ENTRY

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("labkit"),
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="session"),
]

SOLUTION = track("client").solution
Start = Callable[..., Awaitable[ProgramProcess]]
COUNT = 40
LINES = b"".join(b"entry %d\n" % number for number in range(COUNT))
LENGTH = len(LINES) - COUNT


@pytest_asyncio.fixture(loop_scope="session")
async def start(cluster: Cluster) -> AsyncIterator[Start]:
    """Return a function that starts programs, which are stopped at the end of the test."""
    programs: list[ProgramProcess] = []

    async def begin(name: str, *arguments: str) -> ProgramProcess:
        where = cluster.folder, cluster.zookeeper
        program = await start_program(SOLUTION, name, *where, arguments, lambda _: None)
        programs.append(program)
        return program

    yield begin
    for program in programs:
        await program.kill()


async def test_the_official_shell_reads_what_the_program_wrote(
    cluster: Cluster, start: Start
) -> None:
    writer = await start("w1", "write")
    await writer.give(LINES)
    await run_to_end(writer)
    ledger_id = writer.numbers("ledger")[0]
    await _must_have(cluster, ledger_id)
    shell = cluster.bookie("shell").shell
    output = await shell(cluster.apache, "readledger", "-l", str(ledger_id), "-m")
    assert "entry 39" in output
    assert _entries(output) == [(ledger_id, entry_id) for entry_id in range(COUNT)]


async def test_the_official_shell_recovers_the_ledger_of_a_stopped_program_and_fences_it(
    cluster: Cluster, start: Start
) -> None:
    writer = await start("w2", "write")
    await writer.give(LINES)
    await writer.wait_for_lines(COUNT, "confirmed")
    await writer.stop()
    ledger_id = writer.numbers("ledger")[0]
    shell = cluster.bookie("shell").shell
    output = await shell(cluster.apache, "readledger", "-r", "-l", str(ledger_id))
    assert _entries(output) == [(ledger_id, entry_id) for entry_id in range(COUNT)]
    writer.resume()
    await writer.give(b"too late\n")
    await writer.close_input()
    assert await writer.ended() == 1
    assert "BKLedgerFencedException" in writer.error()
    assert writer.numbers("confirmed") == list(range(COUNT))
    await _must_have(cluster, ledger_id)


async def test_the_program_takes_over_the_ledger_of_an_official_client_that_was_killed(
    cluster: Cluster, start: Start
) -> None:
    java = await cluster.java_client()
    ledger_id = await java.create(3, 2, 2, "CRC32C")
    assert await java.add(ledger_id, PAYLOADS) == LAST_ENTRY_ID
    await java.kill()
    taker = await run_to_end(await start("r", "take", str(ledger_id)))
    assert taker.numbers("entry") == list(range(LAST_ENTRY_ID + 1))
    java = await cluster.java_client()
    assert await java.open(ledger_id) == (LAST_ENTRY_ID, sum(map(len, PAYLOADS)))
    assert await java.read(ledger_id, 0, LAST_ENTRY_ID) == PAYLOADS


async def _must_have(cluster: Cluster, ledger_id: int) -> None:
    shell = cluster.bookie("shell").shell
    output = await shell(cluster.apache, "ledgermetadata", "-ledgerid", str(ledger_id))
    assert f"state=CLOSED, length={LENGTH}, lastEntryId={COUNT - 1}" in output


def _entries(output: str) -> list[tuple[int, int]]:
    return [(int(ledger), int(entry)) for ledger, entry in ENTRY.findall(output)]
