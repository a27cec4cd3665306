"""Both kinds of bookie write the same cookie.

The cookie records relative directories as configured, and a bookie without an id uses its address
and port as its id.
"""

from dataclasses import replace

import pytest

from labkit.worlds.live.host.ports import LOOPBACK, free_port
from tests.interop.bookies import BookieFolder, BookieNotServing
from tests.interop.conftest import Cluster
from tests.interop.payloads import PAYLOADS, read, write

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

RELATIVE = (
    ("bookieId", None),
    ("journalDirectories", "j0, ./j1"),
    ("ledgerDirectories", "l0/,data/../l1"),
)


def unnamed(cluster: Cluster, name: str) -> BookieFolder:
    """Return a bookie whose configuration has relative directories and no id."""
    port = free_port()
    folder = replace(cluster.bookie(name), keys=RELATIVE, port=port)
    (folder.folder / "data").mkdir(parents=True)
    return replace(folder, bookie_id=f"{LOOPBACK}:{port}")


@pytest.mark.parametrize(
    ("first", "second"),
    [("labkit", "apache"), pytest.param("apache", "labkit", marks=pytest.mark.long)],
)
async def test_a_bookie_in_relative_directories_is_taken_over_and_given_back(
    cluster: Cluster, first: str, second: str
) -> None:
    folder = unnamed(cluster, f"{first}-relative")
    client = cluster.labkit_client(folder.bookie_id)
    written: list[int] = []
    cookies: list[bytes] = []
    for kind in (first, second, first):
        bookie = await cluster.start(kind, folder)
        path = f"{cluster.metadata.location.cookies}/{folder.bookie_id}"
        cookies.append((await cluster.metadata.get(path))[0])
        writer = await write(client, 1, 1, 1)
        await writer.close()
        written.append(writer.ledger_id)
        for ledger_id in written:
            assert await read(client, ledger_id) == PAYLOADS
        await bookie.stop()
    assert len(set(cookies)) == 1
    assert b'journalDir: "j0,./j1"\nledgerDirs: "2\\tl0/\\tdata/../l1"\n' in cookies[0]


@pytest.mark.parametrize("kind", ["apache", "labkit"])
async def test_the_same_directories_under_other_names_are_refused(
    cluster: Cluster, kind: str
) -> None:
    folder = unnamed(cluster, f"{kind}-renamed")
    await (await cluster.start(kind, folder)).stop()
    renamed = (("ledgerDirectories", "l0,l1"),)
    with pytest.raises(BookieNotServing, match=r"ledgerDirs|ledger_dirs"):
        await cluster.start(kind, replace(folder, keys=RELATIVE + renamed))
