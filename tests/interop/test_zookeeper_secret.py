"""A labkit cluster's ZooKeeper accepts a Java process only if it knows the cluster's secret."""

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
"""The shell of version 4.18 prints this once per bookie; its log format separates the id from the
text.
"""
REFUSED = "Session closed because client failed to authenticate"


def documented_options(data: Path) -> str:
    """Return the options for JAVA_TOOL_OPTIONS that docs/security.md recommends."""
    [options] = re.findall(r'export JAVA_TOOL_OPTIONS="(.*)"', PAGE.read_text())
    return str(options).replace("$DATA", str(data))


def bookkeeper(version: str) -> Apache:
    """Return Apache BookKeeper in another version than the one used by the other tests."""
    jars = fetch_jars("bookkeeper", POM, f"-Dbookkeeper.version={version}")
    return Apache(f"{jars}{os.sep}*")


async def test_a_java_process_gets_in_with_the_documented_options_and_not_without(
    apache: Apache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LocalCluster(1, folder=tmp_path / "data", traced=False) as cluster:
        java = BookieFolder("java", tmp_path / "java", cluster.zookeeper)
        # The exit status is still 0.
        refused = await java.shell(apache, "listbookies", "-rw")
        assert REFUSED in refused
        assert not re.search(r"\bb0\b", refused)
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", documented_options(tmp_path / "data"))
        assert re.search(r"\bb0\b", await java.shell(apache, "listbookies", "-rw"))


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
