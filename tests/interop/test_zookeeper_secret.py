"""A Java process that belongs to a cluster of labkit's is let in by its ZooKeeper."""

import os
import re
from pathlib import Path

import pytest

from labkit.worlds.live.processes.cluster import LocalCluster
from tests.interop.apache import POM, Apache, fetch_jars
from tests.interop.bookies import BookieFolder

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
IN_FIPS_MODE = "Client will not use DIGEST-MD5 as SASL mechanism, because FIPS mode is enabled"
LISTED = "Resolved as"
"""What the shell of 4.18 says once for each bookie; its log keeps the id apart from the text."""
REFUSED = "Session closed because client failed to authenticate"


def documented_options(data: Path) -> str:
    """What docs/security.md tells its reader to put into JAVA_TOOL_OPTIONS."""
    [options] = re.findall(r'export JAVA_TOOL_OPTIONS="(.*)"', PAGE.read_text())
    return str(options).replace("$DATA", str(data))


def bookkeeper(version: str) -> Apache:
    """Apache's BookKeeper of another version than the other tests have."""
    jars = fetch_jars("bookkeeper", POM, f"-Dbookkeeper.version={version}")
    return Apache(f"{jars}{os.sep}*")


async def test_a_java_process_gets_in_with_the_documented_options_and_not_without(
    apache: Apache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LocalCluster(1, folder=tmp_path / "data", traced=False) as cluster:
        java = BookieFolder("java", tmp_path / "java", cluster.zookeeper)
        refused = await java.shell(apache, "listbookies", "-rw")  # Its exit code is 0 all the same.
        assert REFUSED in refused
        assert "bookie-1" not in refused
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", documented_options(tmp_path / "data"))
        assert "bookie-1" in await java.shell(apache, "listbookies", "-rw")


@pytest.mark.java
async def test_bookkeeper_4_18_needs_both_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apache = bookkeeper("4.18.0")
    async with LocalCluster(1, folder=tmp_path / "data", traced=False) as cluster:
        java = BookieFolder("java", tmp_path / "java", cluster.zookeeper)
        login, fips_mode = documented_options(tmp_path / "data").split()
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", login)
        refused = await java.shell(apache, "listbookies", "-rw")
        assert IN_FIPS_MODE in refused
        assert LISTED not in refused
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{login} {fips_mode}")
        assert LISTED in await java.shell(apache, "listbookies", "-rw")
